"""Storage faults of a suite. Each fault is undone before the next one begins."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial

from tlt_bench.campaign.storage.clocks import JUMPS_S, ShiftedClock
from tlt_bench.campaign.storage.disk import SmallDisk
from tlt_bench.campaign.storage.object_store import FailingCalls
from tlt_bench.campaign.storage.redis import RedisControl
from tlt_bench.campaign.suite.faults import HOLD_S, Fault

FULL = "1"
"""Memory limit in bytes below what any Redis uses."""


def local_faults(redis: RedisControl, disks: Sequence[SmallDisk]) -> Mapping[str, Fault]:
    """Return the faults of Redis and of disks by name. Each holds while its block runs."""
    found: dict[str, Fault] = {
        "Redis full": lambda: _full_redis(redis),
        "Redis slow": lambda: _after(redis.pause(HOLD_S)),
        "Redis flushed": lambda: _after(redis.flush()),
        "Redis restarted": lambda: _after(redis.shut_down()),
    }
    return found | {f"disk of {disk.path.name} full": partial(_filled, disk) for disk in disks}


def remote_faults(store: FailingCalls, clock: ShiftedClock | None) -> Mapping[str, Fault]:
    """Return the faults of an object store and of the wall clock, if it can be set. Each holds while its block runs."""
    found: dict[str, Fault] = {
        "object store failing": lambda: _failing(store, one_in=3),
        "object store down": lambda: _failing(store, one_in=1),
    }
    return found | {name: partial(_set, clock, offset_s) for name, offset_s in JUMPS_S.items() if clock}


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


@asynccontextmanager
async def _filled(disk: SmallDisk) -> AsyncIterator[None]:
    try:
        await asyncio.to_thread(disk.fill)
        yield
    finally:
        await asyncio.to_thread(disk.free)


@asynccontextmanager
async def _failing(store: FailingCalls, *, one_in: int) -> AsyncIterator[None]:
    store.one_in = one_in
    try:
        yield
    finally:
        store.one_in = 0


@asynccontextmanager
async def _set(clock: ShiftedClock, offset_s: int) -> AsyncIterator[None]:
    try:
        await asyncio.to_thread(clock.set, offset_s)
        yield
    finally:
        await asyncio.to_thread(clock.set, 0)
