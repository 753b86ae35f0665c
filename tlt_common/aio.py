"""Small asyncio parts that every service needs."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterator
from typing import Never

FIRST_DELAY_S = 0.1
LONGEST_DELAY_S = 2.0


class Signal:
    """Something changed: any number of waiters, each at its own pace, and none misses the last change."""

    def __init__(self) -> None:
        self._count = 0
        self._event = asyncio.Event()

    @property
    def count(self) -> int:
        """How often it was set."""
        return self._count

    def set(self) -> None:
        """Wake everybody who waits."""
        self._count += 1
        event, self._event = self._event, asyncio.Event()
        event.set()

    async def beyond(self, seen: int) -> int:
        """Wait until it was set more often than `seen`; return how often."""
        while self._count == seen:
            await self._event.wait()
        return self._count


async def periodic(interval_s: float, fn: Callable[[], Awaitable[None]]) -> Never:
    """Call `fn`, wait, and again, until cancelled or until it raises."""
    while True:
        await fn()
        await asyncio.sleep(interval_s)


def backoff() -> Iterator[float]:
    """Delays in seconds between attempts to reach a peer: doubling, and spread so that a fleet is not in step."""
    delay_s = FIRST_DELAY_S
    while True:
        yield delay_s * random.uniform(0.75, 1.25)
        delay_s = min(delay_s * 2, LONGEST_DELAY_S)
