"""Fair access to a resource that serves one caller at a time: callers take turns, however many requests each has."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tlt_gateway.queue.fair_queue import FairQueue


class FairTurns:
    """Turns of callers. Bound to one event loop."""

    def __init__(self) -> None:
        self._waiting = FairQueue[asyncio.Future[None]]()
        self._is_taken = False

    @asynccontextmanager
    async def turn(self, owner: str) -> AsyncIterator[None]:
        """Wait for a turn and hold it within the block."""
        if self._is_taken:
            mine: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.push(mine, owner)
            try:
                await mine
            except asyncio.CancelledError:
                if mine in self._waiting:
                    self._waiting.remove(mine)
                elif not mine.cancelled():
                    self._pass_on()  # the turn had just come
                raise
        self._is_taken = True
        try:
            yield
        finally:
            self._pass_on()

    def _pass_on(self) -> None:
        while len(self._waiting):
            if not (following := self._waiting.pop()).cancelled():
                following.set_result(None)
                return
        self._is_taken = False
