"""Time is virtual; a starved process is one whose clock jumps while it does nothing."""

import asyncio
from contextlib import aclosing

import looptime
import pytest

from tlt_common.schedule_clock import TICK_S, ScheduleClock

pytestmark = pytest.mark.looptime


async def test_time_on_schedule_counts() -> None:
    clock = ScheduleClock()
    async with aclosing(clock.ticks()) as ticks:
        for count in range(1, 9):
            assert await anext(ticks) == clock.now_s == count * TICK_S


async def test_a_process_that_did_not_run_judges_nobody(looptime: looptime.LoopTimeProxy) -> None:
    clock, loop = ScheduleClock(), asyncio.get_running_loop()
    async with aclosing(clock.ticks()) as ticks:
        await anext(ticks)

        def starve() -> None:
            loop.setup_looptime(start=loop.time() + 60)  # type: ignore[attr-defined] # the virtual loop's

        for _ in range(20):  # every tick is a minute late
            loop.call_soon(starve)
            await anext(ticks)
        assert clock.now_s <= 2 * TICK_S
        await anext(ticks)
        assert clock.now_s >= 2 * TICK_S
