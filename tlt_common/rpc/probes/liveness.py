"""Liveness of this process: whether its event loop runs."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Never

from tlt_common.schedule_clock import TICK_S, is_on_schedule


class Liveness:
    """
    Measures the silence of the event loop from a thread.

    The thread counts only while it runs on schedule itself: if the whole process is starved, stopped or suspended, its
    loop is not to blame. If a function holds the GIL, the thread cannot run either, and /livez does not answer, which
    probes treat the same.

    Attributes:
        limit_s: Silence up to this is accepted; None accepts any.
    """

    def __init__(self, limit_s: float | None = None) -> None:
        self.limit_s = limit_s
        self._silent_s = 0.0
        self._beats = 0
        self._ended = threading.Event()

    @property
    def failure(self) -> str:
        """Why this process should be restarted; empty while its loop runs."""
        if self.limit_s is None or self._silent_s < self.limit_s:
            return ""
        return f"the event loop has not run for {self._silent_s:.0f} s"

    @asynccontextmanager
    async def judged(self) -> AsyncIterator[None]:
        """Judge the running event loop within the block."""
        self._ended.clear()
        threading.Thread(target=self._listen, name="liveness", daemon=True).start()
        beat = asyncio.ensure_future(self._beat())
        try:
            yield
        finally:
            self._ended.set()
            self._silent_s = 0.0
            beat.cancel()
            await asyncio.wait({beat})

    async def _beat(self) -> Never:
        while True:
            self._beats += 1
            await asyncio.sleep(TICK_S)

    def _listen(self) -> None:
        seen = -1
        while True:
            due_s = time.monotonic() + TICK_S
            if self._ended.wait(TICK_S):
                return
            seen = self.listen(seen, late_s=time.monotonic() - due_s)

    def listen(self, seen: int, *, late_s: float) -> int:
        """Record one tick, which was `late_s` late; return the beats seen, for the next call."""
        if self._beats != seen:
            self._silent_s = 0.0
        elif is_on_schedule(late_s):
            self._silent_s += TICK_S
        return self._beats
