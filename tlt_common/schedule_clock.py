"""A clock that runs only while this process's event loop does."""

import asyncio
from collections.abc import AsyncGenerator

TICK_S = 0.25
"""Seconds between ticks. A tick that is later than one more of these does not count."""


def is_on_schedule(late_s: float) -> bool:
    """Return whether a tick that was this late counts."""
    return late_s < TICK_S


class ScheduleClock:
    """
    Seconds in which the event loop ran on schedule.

    The silence of a peer means something only while this process would have heard it. One that is starved, stopped or
    suspended receives everything late; such time does not count here, so no peer is judged by it.
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
