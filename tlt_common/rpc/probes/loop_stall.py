"""Measures how long single functions block the event loop."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Never

from tlt_common.telemetry import metrics

TICK_S = 0.02
"""Seconds between measurements, and the error of one: a stall that begins between two is measured from the next."""
WINDOW_S = 30.0
"""The metric is the longest stall of this window and the one before, so that no scrape misses one."""


class Longest:
    """The longest stall of the last one to two windows. Pure."""

    def __init__(self) -> None:
        self._began_s = self._now_s = self._before_s = 0.0

    def add(self, stall_s: float, now_s: float) -> float:
        """Add a measurement; return the longest."""
        if now_s - self._began_s >= WINDOW_S:
            is_next = now_s - self._began_s < 2 * WINDOW_S
            self._before_s = self._now_s if is_next else 0.0
            self._now_s, self._began_s = 0.0, now_s
        self._now_s = max(self._now_s, stall_s)
        return max(self._now_s, self._before_s)


@asynccontextmanager
async def stalls_measured() -> AsyncIterator[None]:
    """Measure the running event loop within the block, and export the longest stall."""
    measuring = asyncio.ensure_future(_measure())
    try:
        yield
    finally:
        measuring.cancel()
        await asyncio.wait({measuring})


async def _measure() -> Never:
    longest = Longest()
    while True:
        began_s, computed_s = time.monotonic(), time.process_time()
        await asyncio.sleep(TICK_S)
        now_s = time.monotonic()
        # On a busy machine a tick is late without a function of this process having held the loop.
        stall_s = min(now_s - began_s - TICK_S, time.process_time() - computed_s)
        metrics.RPC_LOOP_STALL.set(longest.add(max(0.0, stall_s), now_s))
