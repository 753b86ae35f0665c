"""
Keeps the garbage collector away from what a fleet's streams hold.

Each stream holds hundreds of objects for as long as its worker lives. A full collection looks at all of them, while
nothing else runs: with ten thousand workers that takes longer than everything a decision costs. Frozen objects are not
looked at; those of streams that ended are freed by their reference counts, and cycles among them by a full collection
after as many streams as there are have been opened a few times over.
"""

import asyncio
import gc
from collections.abc import Callable
from typing import Never

FREEZE_EVERY_S = 1.0
COLLECT_AFTER = 4
"""Full collections come after this many times as many streams were opened as are open."""
MIN_OPENED = 4096
"""And after no fewer than this."""


class SettledHeap:
    """
    Freezes the heap after streams were opened.

    Args:
        opened: Returns the number of streams opened so far.
        connected: Returns the number of streams that are open.
    """

    def __init__(self, opened: Callable[[], int], connected: Callable[[], int]) -> None:
        self._opened = opened
        self._connected = connected
        self._frozen_at = self._collected_at = opened()

    async def run(self) -> Never:
        """Run until cancelled; then let the collector look at everything again."""
        try:
            while True:
                await asyncio.sleep(FREEZE_EVERY_S)
                self.settle()
        finally:
            gc.unfreeze()

    def settle(self) -> None:
        """Freeze what was added since the last call; collect all garbage if enough streams were opened."""
        opened = self._opened()
        if opened == self._frozen_at:
            return
        if opened - self._collected_at >= max(MIN_OPENED, COLLECT_AFTER * self._connected()):
            self._collected_at = opened
            gc.unfreeze()
            gc.collect()
        self._frozen_at = opened
        gc.freeze()
