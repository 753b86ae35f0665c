"""The orderly end of a server: nothing new is begun, and what runs may finish."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

from tlt_common.errors import DrainingError
from tlt_common.telemetry.log import get_logger

log = get_logger(__name__)

Leave: TypeAlias = Callable[[float], Awaitable[None]]


class Drain:
    """
    Counts the calls that are worth waiting for, and refuses them once it has begun.

    Args:
        methods: Names of these calls. All others are answered until the end.
        hangs_up: Callers are disconnected when their calls have ended, and told so at once: they find another replica.
    """

    def __init__(self, *methods: str, hangs_up: bool = False) -> None:
        self.hangs_up = hangs_up
        self._methods = frozenset(methods)
        self._begun = False
        self._running = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._leaving: list[Leave] = []

    @property
    def begun(self) -> bool:
        """Whether new calls are refused."""
        return self._begun

    @property
    def running(self) -> int:
        """Calls that are waited for."""
        return self._running

    def when_begun(self, leave: Leave) -> None:
        """Run `leave` with the seconds there are as soon as it begins; it may take them all, and is cancelled then."""
        self._leaving.append(leave)

    @contextmanager
    def call(self, method: str) -> Iterator[None]:
        """
        One call runs within.

        Raises:
            DrainingError: It has begun.
        """
        if method not in self._methods:
            yield
            return
        if self._begun:
            raise DrainingError(f"{method} is refused: this process is about to end; ask another")
        self._running += 1
        self._idle.clear()
        try:
            yield
        finally:
            self._running -= 1
            if not self._running:
                self._idle.set()

    async def complete(self, within_s: float) -> bool:
        """Begin, and wait until nothing runs any more. False: that took longer than `within_s`, and calls still run."""
        log.info("draining", running=self._running, within_s=within_s)
        self._begun = True
        async with asyncio.TaskGroup() as parts:
            leaving = [parts.create_task(self._run(leave, within_s)) for leave in self._leaving]
            await asyncio.sleep(0)  # whoever wants to know is told, even if nothing runs
            try:
                async with asyncio.timeout(within_s):
                    await self._idle.wait()
            except TimeoutError:
                log.warning("drain_incomplete", running=self._running, within_s=within_s)
            for part in leaving:
                part.cancel()
        return self._idle.is_set()

    async def _run(self, leave: Leave, within_s: float) -> None:
        await leave(within_s)
