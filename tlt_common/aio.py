"""Small asyncio helpers."""

import asyncio
import random
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from typing import Any, Final, TypeAlias, TypeVar

from tlt_common.errors import TltError

T = TypeVar("T")
Start: TypeAlias = Callable[[Coroutine[Any, Any, None]], object]
"""Starts a task."""

FIRST_DELAY_S = 0.1
MAX_DELAY_S = 2.0
_OVER: Final = object()


class Signal:
    """Wakes any number of waiters when something changes. No waiter misses the latest change."""

    def __init__(self) -> None:
        self._count = 0
        self._event = asyncio.Event()

    @property
    def count(self) -> int:
        """Number of times it was set."""
        return self._count

    def set(self) -> None:
        """Wake all waiters."""
        self._count += 1
        event, self._event = self._event, asyncio.Event()
        event.set()

    async def beyond(self, seen: int) -> int:
        """Wait until the count exceeds `seen`; return the count."""
        while self._count == seen:
            await self._event.wait()
        return self._count


class Blocks:
    """Blocks of code that any task can end early."""

    def __init__(self) -> None:
        self._running: set[asyncio.Timeout] = set()

    @asynccontextmanager
    async def until_ended(self) -> AsyncIterator[None]:
        """
        Run a block with `async with`.

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
        """Cancel the running blocks. Blocks that are already ending are not disturbed."""
        for scope in self._running:
            if scope.expired():
                continue
            scope.reschedule(asyncio.get_running_loop().time())


@asynccontextmanager
async def tasks_of_block() -> AsyncIterator[Start]:
    """
    Yield a function that starts tasks. Those that have not finished at the end of the block are cancelled.

    Raises:
        TltError: As raised within the block; a task group alone would wrap it in an ExceptionGroup.
    """
    failure: GeneratorExit | TltError | None = None
    running = set[asyncio.Task[None]]()
    async with asyncio.TaskGroup() as group:

        def start(work: Coroutine[Any, Any, None]) -> None:
            task = group.create_task(work)
            running.add(task)
            task.add_done_callback(running.discard)

        try:
            yield start
        except (GeneratorExit, TltError) as error:
            failure = error
        finally:
            for task in running:
                task.cancel()
    if failure is not None:
        raise failure


class Pieces:
    """
    Splits long work into pieces and runs one piece per pass of the event loop, over all callers, so that other tasks
    run in between.
    """

    def __init__(self) -> None:
        self._turn = asyncio.Lock()

    async def do(self, work: Callable[[], T]) -> T:
        """Run a piece of work when its turn comes."""
        async with self._turn:
            done = work()
            await asyncio.sleep(0)  # within: the next piece is done in a later pass
        return done

    async def each(self, items: Iterator[T | None]) -> AsyncGenerator[T, None]:
        """Yield the items of an iterator except None. Producing one item, or None, is a piece."""
        while True:
            item = await self.do(lambda: next(items, _OVER))
            if item is _OVER:
                return
            if item is not None:
                yield item  # type: ignore[misc] # the end has been told apart


async def one_ahead(source: AsyncIterator[T]) -> AsyncGenerator[T, None]:
    """
    Yield the items of an iterator, fetching each while the one before it is in use.

    Errors of the iterator are raised. Close it (`contextlib.aclosing`) to cancel the pending fetch.
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
    """Yield delays in seconds between attempts, indefinitely: doubling from `first_s` up to `max_s`, with jitter."""
    delay_s = first_s
    while True:
        yield delay_s * random.uniform(0.75, 1.25)
        delay_s = min(delay_s * 2, max_s)
