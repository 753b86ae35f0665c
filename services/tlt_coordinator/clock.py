"""Time base of the whole service."""

import asyncio
import time


class Clock:
    """Unix time at start, advanced by the event loop's clock, so that it matches the calendar and never decreases."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._offset_s = time.time() - self._loop.time()

    def now(self) -> float:
        """Return the Unix time, in seconds."""
        return self._offset_s + self._loop.time()
