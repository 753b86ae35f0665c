"""Small asyncio helpers."""

import asyncio
import random
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Final, TypeVar

T = TypeVar("T")

FIRST_DELAY_S = 0.1
MAX_DELAY_S = 2.0
_OVER: Final = object()


class Signal:
    """Wakes any number of waiters when something changed. None misses the latest change."""

    def __init__(self) -> None:
        self._count = 0
        self._event = asyncio.Event()

    @property
    def count(self) -> int:
        """How often it was set."""
        return self._count

    def set(self) -> None:
        """Wake all waiters."""
        self._count += 1
        event, self._event = self._event, asyncio.Event()
        event.set()

    async def beyond(self, seen: int) -> int:
        """Wait until it was set more often than `seen`; return the count."""
        while self._count == seen:
            await self._event.wait()
        return self._count


class Blocks:
    """Blocks of code that any task may end early."""

    def __init__(self) -> None:
        self._running: set[asyncio.Timeout] = set()

    @asynccontextmanager
    async def until_ended(self) -> AsyncIterator[None]:
        """
        Run a block; `async with`.

        Raises:
            TimeoutError: `end` was called.
        """
        scope = asyncio.timeout(None)
        async with scope:
            self._running.add(scope)
            try:
                yield
            finally:
                self._running.discard(scope)

    def end(self) -> None:
        """Cancel the blocks that are running. Those that are ending already go on ending."""
        for scope in self._running:
            if scope.expired():
                continue
            scope.reschedule(asyncio.get_running_loop().time())


class Pieces:
    """
    Does long work in pieces, one in a pass of the event loop, whoever asks: everything else gets its turn in between,
    however many ask.
    """

    def __init__(self) -> None:
        self._turn = asyncio.Lock()

    async def do(self, work: Callable[[], T]) -> T:
        """Do a piece of work when its turn has come."""
        async with self._turn:
            done = work()
            await asyncio.sleep(0)  # within: the next piece is done in a later pass
        return done

    async def each(self, items: Iterator[T | None]) -> AsyncGenerator[T, None]:
        """Yield the items of an iterator, without None. To make the next item, or None, is a piece."""
        while True:
            item = await self.do(lambda: next(items, _OVER))
            if item is _OVER:
                return
            if item is not None:
                yield item  # type: ignore[misc] # the end has been told apart


async def one_ahead(source: AsyncIterator[T]) -> AsyncGenerator[T, None]:
    """
    Yield the items of an iterator; each is awaited while the one before it is in use.

    Errors of the iterator are raised in its place. Close it (`contextlib.aclosing`) to end what is awaited.
    """

    async def take() -> tuple[T, ...]:
        try:
            return (await anext(source),)
        except StopAsyncIteration:
            return ()

    taking = asyncio.create_task(take())
    try:
        while taken := await taking:
            taking = asyncio.create_task(take())
            yield taken[0]
    finally:
        taking.cancel()
        await asyncio.gather(taking, return_exceptions=True)


def backoff(first_s: float = FIRST_DELAY_S, max_s: float = MAX_DELAY_S) -> Iterator[float]:
    """Yield delays in seconds between attempts, without end: doubling from `first_s` up to `max_s`, with jitter."""
    delay_s = first_s
    while True:
        yield delay_s * random.uniform(0.75, 1.25)
        delay_s = min(delay_s * 2, max_s)
