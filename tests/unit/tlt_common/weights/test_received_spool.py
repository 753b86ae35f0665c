"""A release that is being received, and callers that hang up."""

import asyncio
from pathlib import Path

import pytest

from tests.fakes.spools import disks_idle, spools_in
from tlt_common.weights.received_spool import ReceivedSpool


async def test_a_caller_that_hangs_up_while_its_spool_is_created_leaves_nothing(tmp_path: Path) -> None:
    beginning = asyncio.create_task(ReceivedSpool.begin(tmp_path / "spool", max_bytes=100))
    await asyncio.sleep(0)  # the thread that creates it has been started
    beginning.cancel()
    with pytest.raises(asyncio.CancelledError):
        await beginning
    await disks_idle()
    assert not spools_in(tmp_path / "spool")
