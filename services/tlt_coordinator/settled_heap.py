"""
Keeps long-lived objects of a fleet's streams away from the garbage collector.

Each stream holds hundreds of objects for as long as its worker lives. A full collection looks at all of them, while
nothing else runs: with ten thousand workers that takes longer than everything a decision costs. Frozen objects are not
looked at; they are freed by their reference counts, and cycles among them by a full collection once in a while.

Whatever lives at the moment is frozen with them, connections of strangers to the page among it, which are cycles. So
objects are frozen only while workers join, and a full collection comes whenever the process has grown by a share.
"""

import asyncio
import gc
import os
from collections.abc import Callable
from pathlib import Path
from typing import Never

FREEZE_EVERY_S = 1.0
SETTLING_S = 10.0
"""Seconds for which objects are frozen after a stream was opened: those that live that long mostly stay."""
COLLECT_EVERY_S = 3600.0
"""Seconds between two full collections, at most."""
MAX_GROWTH = 0.25
"""A full collection also comes when the process has grown by this share since the last one."""
MIN_GROWTH_BYTES = 32 * 2**20
"""And by no less than this."""
_STATM = Path("/proc/self/statm")


class SettledHeap:
    """
    Freezes objects that have lived for about a second.

    Args:
        opened: Returns the number of streams opened so far.
        resident: Returns the memory of the process in bytes.
    """

    def __init__(self, opened: Callable[[], int], resident: Callable[[], int] | None = None) -> None:
        self._opened = opened
        self._opened_before = 0
        self._resident = resident or resident_bytes
        self._resident_before = self._resident()
        """After the last full collection."""
        self._until_collection = self._while_settling = 0
        """Calls of `settle` until a full collection is due, and for which objects are still frozen."""
        self._postpone()

    async def run(self) -> Never:
        """Run until cancelled, then unfreeze all objects."""
        try:
            while True:
                await asyncio.sleep(FREEZE_EVERY_S)
                self.settle()
        finally:
            gc.unfreeze()

    def settle(self) -> None:
        """
        While streams are opened, free young garbage and freeze the rest. When due, free all garbage first. Call it
        every FREEZE_EVERY_S.
        """
        if (opened := self._opened()) != self._opened_before:
            self._opened_before, self._while_settling = opened, round(SETTLING_S / FREEZE_EVERY_S)
        self._until_collection -= 1
        grown_bytes = self._resident() - self._resident_before
        if not self._until_collection or grown_bytes > max(MIN_GROWTH_BYTES, MAX_GROWTH * self._resident_before):
            gc.unfreeze()
            gc.collect()
            gc.freeze()
            self._resident_before = self._resident()
            self._postpone()
        elif self._while_settling:
            gc.collect(1)
            gc.freeze()
        self._while_settling = max(0, self._while_settling - 1)

    def _postpone(self) -> None:
        self._until_collection = round(COLLECT_EVERY_S / FREEZE_EVERY_S)


def resident_bytes() -> int:
    """Return the memory of this process in bytes."""
    return int(_STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
