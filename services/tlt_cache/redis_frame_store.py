"""
Frames in Redis, in one shard or spread over the nodes of a Redis Cluster.

The frames of a response are in one shard, and each shard has an equal part of the budget. A shard whose node is lost is
skipped until `ping` reaches it: its frames are missing from takes, and new frames for it are dropped.

The frames to take are chosen in this process (`selection`), from a bounded part of the index: the latest arrivals.
"""

import asyncio
import zlib
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from itertools import count
from types import MappingProxyType
from typing import Any, TypeVar

from redis.crc import key_slot

from tlt_cache.entry import Entry, StoredFrame
from tlt_cache.frame_store import NO_CURSORS, Cursors
from tlt_cache.redis_client import connected, is_cluster
from tlt_cache.redis_shard import MAX_ENTRIES, RedisShard
from tlt_cache.selection import choose
from tlt_common.aio import one_ahead
from tlt_common.domain.hidden import CacheUsage, EncodedFrame
from tlt_common.errors import CacheUnavailableError
from tlt_common.telemetry import metrics
from tlt_common.telemetry.log import get_logger

log = get_logger(__name__)

READ_BYTES = 8 * 2**20
"""Frames read at a time, in bytes, unless a single one is larger. A take holds two such batches in memory: one is read
while the other is sent."""
SLOTS = 16384
"""Slots of a Redis Cluster."""

_Answer = TypeVar("_Answer")


class RedisFrameStore:
    """
    A FrameStore that survives restarts of the service and is shared by its replicas.

    Args:
        url: redis://, rediss:// or unix://; with +cluster behind the scheme, any node of a Redis Cluster.
        fleet: Prefix of the keys. Fleets do not see each other's frames.
        budget_bytes: Budget for what Redis uses for frames, over all shards.
        tls: Options of the client for TLS.
        shards: Number of shards.
    """

    def __init__(
        self,
        url: str,
        *,
        fleet: str,
        budget_bytes: int,
        tls: Mapping[str, Any] = MappingProxyType({}),
        shards: int = 1,
    ) -> None:
        # A client of a cluster closes all its connections when a node is lost: one for each shard.
        self._clients = [connected(url, tls) for _ in range(shards if is_cluster(url) else 1)]
        self._budget_bytes = budget_bytes
        self._shards = [
            RedisShard(
                self._clients[number % len(self._clients)],
                tag=tag_of(fleet, number, shards),
                number=number,
                budget_bytes=budget_bytes // shards,
            )
            for number in range(shards)
        ]
        self._lost: set[int] = set()

    async def put(self, frames: Sequence[EncodedFrame]) -> int:
        by_shard = defaultdict[int, list[EncodedFrame]](list)
        for frame in frames:
            by_shard[zlib.crc32(frame.header.request_id.encode()) % len(self._shards)].append(frame)
        return sum(await self._ask({number: _putting(part) for number, part in by_shard.items()}))

    async def take(
        self, *, max_tokens: int, seed: int, min_policy_version: int = 0, newer_than: Cursors = NO_CURSORS
    ) -> AsyncIterator[StoredFrame]:
        limit = MAX_ENTRIES // len(self._shards)

        def listing(number: int) -> Callable[[RedisShard], Awaitable[list[Entry]]]:
            return lambda shard: shard.latest(newer_than=newer_than.get(number, 0), limit=limit)

        found = await self._ask({number: listing(number) for number in range(len(self._shards))})
        entries = [entry for part in found for entry in part]
        chosen = choose(entries, max_tokens=max_tokens, seed=seed, min_policy_version=min_policy_version)
        async with aclosing(one_ahead(self._read(chosen))) as parts:
            async for part in parts:
                for frame in part:
                    yield frame

    async def usage(self) -> CacheUsage:
        found = await self._ask(dict.fromkeys(range(len(self._shards)), RedisShard.usage))
        return CacheUsage(
            frames=sum(usage.frames for usage in found),
            tokens=sum(usage.tokens for usage in found),
            used_bytes=sum(usage.used_bytes for usage in found),
            budget_bytes=self._budget_bytes,
            evicted=sum(usage.evicted for usage in found),
        )

    async def ping(self) -> None:
        numbers = self._lost or range(len(self._shards))
        await self._ask(dict.fromkeys(numbers, RedisShard.ping), also_lost=True)

    async def aclose(self) -> None:
        for client in self._clients:
            await client.aclose()

    async def _read(self, chosen: Iterable[Entry]) -> AsyncIterator[list[StoredFrame]]:
        for batch in _batches(chosen):
            by_shard = defaultdict[int, list[Entry]](list)
            for entry in batch:
                by_shard[entry.shard].append(entry)
            for part in await self._ask({number: _reading(part) for number, part in by_shard.items()}):
                yield part

    async def _ask(
        self, calls: Mapping[int, Callable[[RedisShard], Awaitable[_Answer]]], *, also_lost: bool = False
    ) -> list[_Answer]:
        """
        Call all shards concurrently; return the answers of the usable ones.

        Raises:
            CacheUnavailableError: No shard can be used.
        """
        answers, errors = list[_Answer](), list[CacheUnavailableError]()

        async def ask(number: int) -> None:
            try:
                answers.append(await calls[number](self._shards[number]))
            except CacheUnavailableError as error:
                errors.append(error)
                self._note(number, lost=True, error=error.message)
            else:
                self._note(number, lost=False)

        everywhere = also_lost or len(self._lost) == len(self._shards)
        async with asyncio.TaskGroup() as tasks:
            for number in calls:
                if everywhere or number not in self._lost:
                    tasks.create_task(ask(number), name=f"shard {number}")
        if errors and len(self._lost) == len(self._shards):
            raise errors[0]
        return answers

    def _note(self, number: int, *, lost: bool, error: str = "") -> None:
        if lost == (number in self._lost):
            return
        if lost:
            self._lost.add(number)
            log.warning("shard_lost", shard=number, error=error)
        else:
            self._lost.remove(number)
            log.info("shard_reachable", shard=number)
        metrics.CACHE_LOST_SHARDS.set(len(self._lost))


def tag_of(fleet: str, number: int, shards: int) -> str:
    """
    Return the hash tag of a shard's keys.

    Slots of a new cluster are divided among its nodes in equal ranges. So are shards: the tag of shard i of n is the
    first whose slot is in the ith of n equal ranges of slots.
    """
    if shards == 1:
        return f"tlt:{fleet}"
    tags = (f"tlt:{fleet}:{number}.{attempt}" for attempt in count())
    return next(tag for tag in tags if key_slot(tag.encode()) * shards // SLOTS == number)


def _putting(frames: Sequence[EncodedFrame]) -> Callable[[RedisShard], Awaitable[int]]:
    return lambda shard: shard.put(frames)


def _reading(entries: Sequence[Entry]) -> Callable[[RedisShard], Awaitable[list[StoredFrame]]]:
    return lambda shard: shard.read(entries)


def _batches(entries: Iterable[Entry]) -> Iterator[list[Entry]]:
    """Divide entries into batches of at most READ_BYTES. A larger entry forms its own batch."""
    batch, size = list[Entry](), 0
    for entry in entries:
        if batch and size + entry.size_bytes > READ_BYTES:
            yield batch
            batch, size = [], 0
        batch.append(entry)
        size += entry.size_bytes
    if batch:
        yield batch
