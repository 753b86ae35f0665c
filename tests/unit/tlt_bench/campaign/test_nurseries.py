"""The processes in which targets are searched."""

import asyncio
from pathlib import Path

import pytest

from tlt_bench.campaign.fuzz.nurseries import Ended, nurseries


async def test_targets_are_searched_in_processes_of_their_own_that_may_fail_or_hang(tmp_path: Path) -> None:
    async with nurseries(tmp_path, 1) as free:
        nursery = await free.get()
        found = await nursery.run(("configuration.gateway.set", "5", "0", "0"))
        assert (found.code, found.errors) == (0, "")
        assert '"tried": 5' in found.output
        failed = await nursery.run(("nothing", "5", "0", "0"))
        assert failed.code == 1
        assert "unknown target 'nothing'" in failed.errors
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1):
                await nursery.run(("frames.common", "1000000000", "0", "600"))
        assert await nursery.run(("configuration.gateway.set", "5", "0", "0")) == Ended(
            code=0, output=found.output, errors=""
        )


async def test_a_nursery_that_ends_is_an_error_and_not_a_hang(tmp_path: Path) -> None:
    async with nurseries(tmp_path, 1) as free:
        nursery = await free.get()
        nursery._process.kill()
        with pytest.raises(RuntimeError, match="the process that forks targets ended"):
            await nursery.run(("configuration.gateway.set", "5", "0", "0"))
