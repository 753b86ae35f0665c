"""
Keeps the garbage collector away from what a fleet's streams hold.

Each stream holds hundreds of objects for as long as its worker lives. A full collection looks at all of them, while
nothing else runs: with ten thousand workers that takes longer than everything a decision costs. Frozen objects are not
looked at; they are freed by their reference counts, and cycles among them by a full collection once in a while.
"""

import asyncio
import gc
from collections.abc import Callable
from typing import Never

FREEZE_EVERY_S = 1.0
COLLECT_EVERY_S = 3600.0
"""Seconds between two full collections, at most."""
COLLECT_AFTER = 4
"""A full collection also comes after this many times as many streams were opened as are open."""
MIN_OPENED = 4096
"""And after no fewer than this."""


class SettledHeap:
    """
    Freezes what outlived a second or so.

    Args:
        opened: Returns the number of streams opened so far.
        connected: Returns the number of streams that are open.
    """

    def __init__(self, opened: Callable[[], int], connected: Callable[[], int]) -> None:
        self._opened = opened
        self._connected = connected
        self._opened_before = opened()
        self._calls = 0
        """Calls of `settle` since the last full collection."""

    async def run(self) -> Never:
        """Run until cancelled; then let the collector look at everything again."""
        try:
            while True:
                await asyncio.sleep(FREEZE_EVERY_S)
                self.settle()
        finally:
            gc.unfreeze()

    def settle(self) -> None:
        """Free young garbage, or all of it if that is due, and freeze the rest. Call it every FREEZE_EVERY_S."""
        opened = self._opened() - self._opened_before
        self._calls += 1
        if (
            opened >= max(MIN_OPENED, COLLECT_AFTER * self._connected())
            or self._calls * FREEZE_EVERY_S >= COLLECT_EVERY_S
        ):
            self._opened_before, self._calls = self._opened(), 0
            gc.unfreeze()
            gc.collect()
        else:
            gc.collect(1)
        gc.freeze()
