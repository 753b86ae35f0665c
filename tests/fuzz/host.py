"""A service in an event loop of its own, in a thread, so that synchronous searches can call it."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias, TypeVar

from tests.fuzz.quiet import logged_errors
from tests.fuzz.target import HarmError

T = TypeVar("T")
Announce: TypeAlias = Callable[[str], None]

START_S = 120.0
"""Time limit for a service to start, in seconds; a trainer imports torch."""


class Host:
    """The event loop, and the service that runs in it."""

    def __init__(self, loop: asyncio.AbstractEventLoop, service: asyncio.Task[None], address: str) -> None:
        self._loop = loop
        self._service = service
        self.address = address
        self._lost: list[str] = []
        loop.set_exception_handler(self._note)

    def run(self, part: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the loop and return its result."""
        return asyncio.run_coroutine_threadsafe(part, self._loop).result()

    def check(self) -> None:
        """
        Check that the service runs, and that nothing in it failed without an answer.

        Raises:
            HarmError: It ended, logged an error, or an exception was lost.
        """
        if self._service.done():
            raise HarmError(f"the service ended: {self._service.exception()!r}")
        if found := (*logged_errors(), *self._lost):
            self._lost.clear()
            raise HarmError("; ".join(found))

    def _note(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        self._lost.append(f"{context.get('message')}: {context.get('exception')!r}")


@contextmanager
def hosted(serve: Callable[[Announce], Awaitable[None]]) -> Iterator[Host]:
    """Run a service until the end of the block. It calls its argument with its address once it accepts calls."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="fuzzed-service")
    thread.start()
    service: asyncio.Task[None] | None = None
    try:
        service, address = asyncio.run_coroutine_threadsafe(_started(serve), loop).result()
        yield Host(loop, service, address)
    finally:
        if service is not None:
            asyncio.run_coroutine_threadsafe(_ended(service), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def _started(serve: Callable[[Announce], Awaitable[None]]) -> tuple[asyncio.Task[None], str]:
    address: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    service = asyncio.get_running_loop().create_task(_served(serve, address.set_result))
    async with asyncio.timeout(START_S):
        either: list[asyncio.Future[Any]] = [service, address]
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if service.done():
            await service
        return service, await address


async def _served(serve: Callable[[Announce], Awaitable[None]], announce: Announce) -> None:
    await serve(announce)


async def _ended(service: asyncio.Task[None]) -> None:
    service.cancel()
    await asyncio.wait({service})
