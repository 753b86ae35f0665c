"""What is done to the storage of a suite. Each fault is undone before the next one begins."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TypeAlias

from tlt_bench.campaign.storage.disk import SmallDisk
from tlt_bench.campaign.storage.redis import RedisControl

HOLD_S = 8.0
"""Seconds that a fault lasts: longer than every time limit of cache and tuner towards Redis."""
FULL = "1"
"""Memory limit in bytes below what any Redis uses."""

Fault: TypeAlias = Callable[[], AbstractAsyncContextManager[None]]


def faults_of(redis: RedisControl, disks: Sequence[SmallDisk]) -> Mapping[str, Fault]:
    """Return all faults by name. Each holds while its block runs."""
    found: dict[str, Fault] = {
        "Redis full": lambda: _full_redis(redis),
        "Redis slow": lambda: _after(redis.pause(HOLD_S)),
        "Redis flushed": lambda: _after(redis.flush()),
        "Redis restarted": lambda: _after(redis.shut_down()),
    }
    return found | {f"disk of {disk.path.name} full": _filled(disk) for disk in disks}


def ordered(names: Sequence[str], seed: int) -> list[str]:
    """Return all faults in a random order."""
    return random.Random(f"storage {seed}").sample(list(names), len(names))


@asynccontextmanager
async def _full_redis(redis: RedisControl) -> AsyncIterator[None]:
    limit = await redis.limit()
    await redis.set_limit(FULL)
    try:
        yield
    finally:
        await redis.set_limit(limit)


@asynccontextmanager
async def _after(done: Awaitable[None]) -> AsyncIterator[None]:
    await done
    yield


def _filled(disk: SmallDisk) -> Fault:
    @asynccontextmanager
    async def fault() -> AsyncIterator[None]:
        try:
            await asyncio.to_thread(disk.fill)
            yield
        finally:
            await asyncio.to_thread(disk.free)

    return fault
