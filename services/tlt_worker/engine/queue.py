"""A bounded queue between the link's reader thread and the worker's event loop."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from typing import Generic, TypeVar

T = TypeVar("T")


class BoundedQueue(Generic[T]):
    """
    A queue of items with a bounded total size. An item that does not fit is dropped and counted; `put` never blocks.

    Any thread may put; one event loop consumes. Consumed items count until the consumer requests more, so that the
    budget also bounds what is being sent.

    Args:
        budget: Maximum total size.
        size_of: Return the size of an item, in units of the budget.
        on_drop: Called with each dropped item, in the thread that put it.
    """

    def __init__(self, budget: int, *, size_of: Callable[[T], int], on_drop: Callable[[T], object]) -> None:
        self._budget = self._free = budget
        self._size_of = size_of
        self._on_drop = on_drop
        self._items: list[T] = []
        self._lock = threading.Lock()
        self._filled = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    def put(self, item: T) -> bool:
        """Add an item. Return False if it did not fit and was dropped."""
        size = self._size_of(item)
        with self._lock:
            fits = size <= self._free
            if fits:
                self._items.append(item)
                self._free -= size
        if not fits:
            self._on_drop(item)
        elif self._loop is not None:
            with suppress(RuntimeError):  # the loop is closed: there is no consumer any more
                self._loop.call_soon_threadsafe(self._filled.set)
        return fits

    @property
    def used(self) -> float:
        """Share of the budget that is in use."""
        with self._lock:
            return 1 - self._free / self._budget

    async def batches(self) -> AsyncGenerator[tuple[T, ...]]:
        """
        Yield all queued items, oldest first, whenever there are any. Requesting the next batch releases the space of
        the previous one.
        """
        self._loop = asyncio.get_running_loop()
        while True:
            self._filled.clear()
            with self._lock:
                batch, self._items = tuple(self._items), []
            if not batch:
                await self._filled.wait()
                continue
            try:
                yield batch
            finally:
                with self._lock:
                    self._free += sum(map(self._size_of, batch))
