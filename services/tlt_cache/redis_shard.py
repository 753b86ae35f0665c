"""
Frames in one slot of Redis: a string per payload, a hash of index entries, the sums, and the order of the frames by
arrival and by policy. Scripts update them atomically, so that replicas of the service may share them: a frame is
counted exactly while it is stored, and removing it twice counts once.

Payloads do not pass through scripts, which would copy them. They are written under separate names that expire, and a
script admits them. If the service dies in between, they expire.
"""

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from redis.asyncio import Redis

from tlt_cache.entry import Entry, StoredFrame, entry_of, unpacked
from tlt_cache.eviction import spare_bytes, victims
from tlt_cache.redis_client import Client, reachable
from tlt_cache.redis_scripts import ADMIT, REMOVE
from tlt_common.domain.hidden import CacheUsage, EncodedFrame
from tlt_common.errors import CacheUnavailableError

UNADMITTED_MS = 60_000
"""Lifetime of a payload that no script admits."""
ROUNDS_OF_EVICTION = 8
"""Attempts to make room, since other replicas may fill it; after the last one the frames are dropped."""
ENTRIES_PER_CALL = 512
MAX_ENTRIES = 4096
"""Entries read for one take or one eviction, at most: a million tokens, of which a take returns a few per cent."""
ENTRY_BYTES = 330
"""What Redis uses for an index entry beside the length of its line, and for the name of its payload."""
ADMITTED, NO_MEMORY = 1, -1


class RedisShard:
    """
    The frames of one slot.

    Args:
        client: Client, shared with other shards.
        tag: Hash tag of the keys. Shards with different tags do not see each other's frames.
        number: Number of this shard, for entries.
        budget_bytes: Budget for what Redis uses for frames.
    """

    def __init__(self, client: Client, *, tag: str, number: int, budget_bytes: int) -> None:
        # The client's annotations differ between one Redis and a cluster; its commands do not.
        self._redis: Any = client
        self._number = number
        self._budget_bytes = budget_bytes
        self._keys = tuple(f"{{{tag}}}:{part}" for part in ("entries", "sums", "arrivals", "policies"))
        self._entries, self._sums, self._arrivals, self._policies = self._keys
        self._payload = f"{{{tag}}}:frame:"

    async def put(self, frames: Sequence[EncodedFrame]) -> int:
        """
        Store frames, evicting others if necessary. Return how many were stored.

        Raises:
            CacheUnavailableError: Redis cannot be used.
        """
        waiting, stored = [frame for frame in frames if frame.size_bytes <= self._budget_bytes], 0
        for _ in range(ROUNDS_OF_EVICTION):
            if not waiting:
                break
            outcomes = await self._admit(waiting)
            refused = [frame for frame, outcome in zip(waiting, outcomes, strict=True) if outcome != ADMITTED]
            stored += len(waiting) - len(refused)
            waiting = refused
            if not waiting:
                break
            # A Redis that is full has less room than the budget says. Frames must go on to be replaced, or the drafter
            # would be trained on those of an ever older policy.
            is_full = NO_MEMORY in outcomes
            within_bytes = await self._used_bytes() if is_full else self._budget_bytes
            needed = max(frame.size_bytes for frame in waiting)
            if not await self._make_room(needed, within_bytes=within_bytes) and is_full:
                break
        return stored

    async def latest(self, *, newer_than: int, limit: int) -> list[Entry]:
        """
        Return the latest entries that arrived after a sequence number, at most `limit`.

        Raises:
            CacheUnavailableError: Redis cannot be used.
        """
        entries: list[Entry] = []
        below = "+inf"
        while len(entries) < limit:
            count = min(ENTRIES_PER_CALL, limit - len(entries))
            with reachable():
                found = await self._redis.zrevrangebyscore(self._arrivals, below, f"({newer_than}", start=0, num=count)
            entries += await self._read(found)
            if len(found) < count:
                break
            below = f"({int(found[-1])}"
        return entries

    async def read(self, entries: Sequence[Entry]) -> list[StoredFrame]:
        """
        Return the frames of these entries, without evicted ones.

        Raises:
            CacheUnavailableError: Redis cannot be used.
        """
        with reachable():
            blobs = await self._redis.mget([self._payload + entry.name for entry in entries])
        found = zip(entries, blobs, strict=True)
        return [StoredFrame(entry=entry, blob=blob) for entry, blob in found if blob is not None]

    async def usage(self) -> CacheUsage:
        """
        Return the usage of this shard.

        Raises:
            CacheUnavailableError: Redis cannot be used.
        """
        with reachable():
            frames = await self._redis.hlen(self._entries)
            sums = await self._redis.hgetall(self._sums)
        return CacheUsage(
            frames=frames,
            tokens=int(sums.get(b"tokens", 0)),
            used_bytes=int(sums.get(b"bytes", 0)),
            budget_bytes=self._budget_bytes,
            evicted=int(sums.get(b"evicted", 0)),
        )

    async def ping(self) -> None:
        """
        Check that frames can be stored, by deleting a key that does not exist: a full Redis accepts that, a replica
        does not.

        A demoted primary still answers reads, while its name resolves to the new one. Connections are therefore
        reopened after a failure.

        Raises:
            CacheUnavailableError: Redis cannot be used.
        """
        try:
            with reachable():
                await self._redis.unlink(self._payload)
        except CacheUnavailableError:
            if isinstance(self._redis, Redis):  # a client of a cluster asks for the new primary by itself
                await self._redis.connection_pool.disconnect()
            raise

    async def _admit(self, frames: Sequence[EncodedFrame]) -> list[int]:
        """Write the payloads and admit them, in one round trip. Return the outcome of each."""
        keys, arguments = list(self._keys), list[bytes | str | int]([self._budget_bytes])
        with reachable():
            pipeline = self._redis.pipeline(transaction=False)
            for frame in frames:
                name = os.urandom(8).hex()
                entry = replace(entry_of(frame), name=name)
                line = entry.packed()
                keys.append(self._payload + name)
                arguments += [ENTRY_BYTES + len(line), entry.tokens, entry.policy_version, line]
                pipeline.set(keys[-1], frame.blob, px=UNADMITTED_MS)
            pipeline.eval(ADMIT, len(keys), *keys, *arguments)
            *_, outcomes = await pipeline.execute(raise_on_error=False)
            if isinstance(outcomes, Exception):
                raise outcomes
        return list(outcomes)

    async def _used_bytes(self) -> int:
        with reachable():
            return int(await self._redis.hget(self._sums, "bytes") or 0)

    async def _make_room(self, needed_bytes: int, *, within_bytes: int) -> bool:
        """Evict frames until more than that many bytes fit within these; return whether there were any to evict."""
        used_bytes = await self._used_bytes()
        # What was refused did not fit: Redis uses more for a frame than its bytes.
        needed_bytes = max(needed_bytes, within_bytes - used_bytes + 1)
        spare = spare_bytes(used_bytes=used_bytes, needed_bytes=needed_bytes, budget_bytes=within_bytes)
        chosen = victims(await self._oldest(), spare)
        for at in range(0, len(chosen), ENTRIES_PER_CALL):
            batch = chosen[at : at + ENTRIES_PER_CALL]
            keys = [*self._keys, *(self._payload + entry.name for entry in batch)]
            sums = [part for entry in batch for part in (_key(entry.sequence), entry.size_bytes, entry.tokens)]
            with reachable():
                await self._redis.eval(REMOVE, len(keys), *keys, *sums)
        return bool(chosen)

    async def _oldest(self) -> list[Entry]:
        """Return MAX_ENTRIES entries of the oldest policies, in order of arrival within a policy."""
        entries: list[Entry] = []
        for at in range(0, MAX_ENTRIES, ENTRIES_PER_CALL):
            with reachable():
                found = await self._redis.zrange(self._policies, at, at + ENTRIES_PER_CALL - 1)
            entries += await self._read(found)
            if len(found) < ENTRIES_PER_CALL:
                break
        return entries

    async def _read(self, sequences: Sequence[bytes]) -> list[Entry]:
        if not sequences:
            return []
        with reachable():
            lines = await self._redis.hmget(self._entries, sequences)
        found = zip(sequences, lines, strict=True)
        return [unpacked(int(sequence), line, shard=self._number) for sequence, line in found if line is not None]


def _key(sequence: int) -> str:
    return f"{sequence:016d}"
