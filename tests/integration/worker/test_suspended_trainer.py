"""A spot trainer that is suspended ends, and is started again only when it is resumed."""

import asyncio
import sys
from collections.abc import Callable

from tlt_worker.lending.trainer_process import TrainerProcess


async def test_a_suspended_process_ends_and_comes_back() -> None:
    process, exits = TrainerProcess([sys.executable, "-c", "import time; time.sleep(600)"]), list[str]()
    running = asyncio.create_task(process.run(on_exit=lambda: exits.append("exited")))
    try:
        await _until(lambda: process.pid is not None)
        first = process.pid
        await process.suspend()
        await _until(lambda: process.pid is None)
        await asyncio.sleep(2.0)  # longer than a restart waits
        assert process.pid is None
        assert exits == ["exited"]
        process.resume()
        await _until(lambda: process.pid not in {None, first})
    finally:
        running.cancel()
        await asyncio.wait([running])


async def _until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110 - exits are no event
            await asyncio.sleep(0.05)
