"""Graceful shutdown of a server: refuses new work and lets running calls finish."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TypeAlias

from tlt_common.errors import DrainingError
from tlt_common.telemetry.log import get_logger

log = get_logger(__name__)

Leave: TypeAlias = Callable[[float], Awaitable[None]]

END_S = 1.0
"""Seconds for what still runs when the time is over to tell its callers so."""


class Drain:
    """
    Counts the calls a shutdown waits for, and refuses new ones once draining has begun.

    Args:
        methods: Names of these calls. Other methods are served until the end.
        hangs_up: Close listeners and idle connections at once, so that clients move to another replica.
    """

    def __init__(self, *methods: str, hangs_up: bool = False) -> None:
        self.hangs_up = hangs_up
        self._methods = frozenset(methods)
        self._begun = False
        self._running = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._leaving: list[Leave] = []
        self._ending: list[Callable[[], None]] = []

    @property
    def begun(self) -> bool:
        """Whether new calls are refused."""
        return self._begun

    @property
    def running(self) -> int:
        """Number of running calls and other work that the shutdown waits for."""
        return self._running

    def when_begun(self, leave: Leave) -> None:
        """Call `leave` with the seconds left when draining begins. It is cancelled when draining completes."""
        self._leaving.append(leave)

    def when_over(self, end: Callable[[], None]) -> None:
        """Call `end` when time is up and calls are still running. It ends them with an error that gives the reason."""
        self._ending.append(end)

    @contextmanager
    def call(self, method: str) -> Iterator[None]:
        """
        Count one call within the block if a shutdown waits for its method.

        Raises:
            DrainingError: Draining has begun.
        """
        if method not in self._methods:
            yield
            return
        with self.work(method):
            yield

    @contextmanager
    def work(self, name: str) -> Iterator[None]:
        """
        Count a piece of work within the block: a call, or one of several requests in a call.

        Raises:
            DrainingError: Draining has begun.
        """
        if self._begun:
            raise DrainingError(f"{name} is refused: this process is shutting down; use another one")
        self._running += 1
        self._idle.clear()
        try:
            yield
        finally:
            self._running -= 1
            if not self._running:
                self._idle.set()

    async def complete(self, within_s: float) -> bool:
        """
        Begin draining and wait until no call is running. Return False if calls are still running after `within_s`; they
        are ended and have `END_S` to send their errors.
        """
        log.info("draining", running=self._running, within_s=within_s)
        self._begun = True
        async with asyncio.TaskGroup() as parts:
            leaving = [parts.create_task(self._run(leave, within_s)) for leave in self._leaving]
            await asyncio.sleep(0)  # starts the leave callbacks even if nothing runs
            try:
                async with asyncio.timeout(within_s):
                    await self._idle.wait()
                is_idle = True
            except TimeoutError:
                is_idle = False
                log.warning("drain_incomplete", running=self._running, within_s=within_s)
                await self._end()
            for part in leaving:
                part.cancel()
        return is_idle

    async def _end(self) -> None:
        for end in self._ending:
            end()
        if self._ending:
            with suppress(TimeoutError):
                async with asyncio.timeout(END_S):
                    await self._idle.wait()

    async def _run(self, leave: Leave, within_s: float) -> None:
        await leave(within_s)
