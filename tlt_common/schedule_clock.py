"""A clock that runs only while this process's event loop runs on schedule."""

import asyncio
from collections.abc import AsyncGenerator

TICK_S = 0.25
"""Seconds between ticks. A tick that is later than one more of these does not count."""


def is_on_schedule(late_s: float) -> bool:
    """Return whether a tick that was this late counts as on schedule."""
    return late_s < TICK_S


class ScheduleClock:
    """
    Seconds in which the event loop ran on schedule.

    A peer's silence is only meaningful while this process could have heard it. A process that is starved, stopped or
    suspended receives everything late, so such time does not count.
    """

    def __init__(self) -> None:
        self._now_s = 0.0

    @property
    def now_s(self) -> float:
        """Seconds on schedule so far. Comparable only with values of the same clock."""
        return self._now_s

    async def ticks(self) -> AsyncGenerator[float, None]:
        """Run the clock; yield `now_s` after every tick, late ones included."""
        loop = asyncio.get_running_loop()
        while True:
            due_s = loop.time() + TICK_S
            await asyncio.sleep(TICK_S)
            if is_on_schedule(loop.time() - due_s):
                self._now_s += TICK_S
            yield self._now_s
