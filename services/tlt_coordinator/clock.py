"""One axis of time for the whole service."""

import asyncio
import time


class Clock:
    """Unix time as it was at start, carried on by the event loop: it agrees with calendars and never goes back."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._offset_s = time.time() - self._loop.time()

    def now(self) -> float:
        """Seconds since 1970."""
        return self._offset_s + self._loop.time()
