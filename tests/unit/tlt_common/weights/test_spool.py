"""A release that is being received: callers that hang up, and disks that fill up."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.fakes.full_disk import full_disk
from tests.fakes.spools import disks_idle, spools_in
from tlt_common.domain.weights import TensorChunk
from tlt_common.errors import WeightsError, WeightsUnreadableError
from tlt_common.weights.spool import Spool


async def test_a_caller_that_hangs_up_while_its_spool_is_created_leaves_nothing(tmp_path: Path) -> None:
    beginning = asyncio.create_task(Spool.begin(tmp_path / "spool", max_bytes=100))
    await asyncio.sleep(0)  # the thread that creates it has been started
    beginning.cancel()
    with pytest.raises(asyncio.CancelledError):
        await beginning
    await disks_idle()
    assert not spools_in(tmp_path / "spool")


async def pieces() -> AsyncIterator[TensorChunk]:
    for place in range(4):
        yield TensorChunk(name="a", dtype="F32", shape=(2**20,), offset_bytes=place * 2**20, data=bytes(2**20))


async def test_a_disk_that_fills_up_is_named_and_nothing_is_left(tmp_path: Path) -> None:
    incoming = await Spool.begin(tmp_path, max_bytes=2**40)
    with (
        full_disk(6 * 2**20),
        pytest.raises(WeightsUnreadableError, match="File too large"),
    ):
        await incoming.receive(pieces())
    incoming.discard("the disk is full")
    assert not spools_in(tmp_path)


async def test_weights_above_the_maximum_size_are_refused(tmp_path: Path) -> None:
    incoming = await Spool.begin(tmp_path, max_bytes=100)
    with pytest.raises(WeightsError, match="brings the weights to 4194304 bytes; the maximum is 100"):
        await incoming.receive(pieces())
    incoming.discard("the weights are too large")


async def test_a_source_that_sends_nothing_any_more_is_given_up(tmp_path: Path) -> None:
    async def silent() -> AsyncIterator[TensorChunk]:
        async for piece in pieces():
            yield piece
            await asyncio.Event().wait()

    incoming = await Spool.begin(tmp_path, max_bytes=2**40)
    with pytest.raises(TimeoutError):
        await incoming.receive(silent(), idle_s=0.01)
    assert len(incoming.log) == 1
    incoming.discard("no tensor arrived")
