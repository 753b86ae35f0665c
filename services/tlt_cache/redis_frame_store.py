"""
Frames in Redis.

Five keys per fleet, in one cluster slot: a hash of frames as received, a hash of their index entries, the sums, and the
order of the frames by arrival and by policy. Scripts update them atomically, so that replicas of the service may share
them: a frame is counted exactly while it is stored, and removing it twice counts once.

Which frames to take and to evict is decided in this process (`selection`, `eviction`), from a bounded part of the
index, read in small parts: the latest arrivals, and the frames of the oldest policies.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from tlt_cache.entry import Entry, StoredFrame, entry_of, unpacked
from tlt_cache.eviction import spare_bytes, victims
from tlt_cache.selection import choose
from tlt_common.domain.hidden import CacheUsage, EncodedFrame
from tlt_common.errors import CacheUnavailableError

CONNECT_S = 2.0
ANSWER_S = 5.0
FRAMES_PER_READ = 8
"""16 MiB at 256 states of 4096 bfloat16 elements: what one read may hold in memory."""
ROUNDS_OF_EVICTION = 8
"""Attempts to make room, since other replicas may fill it; after the last one the frame is dropped."""

ENTRIES_PER_READ = 512
MAX_ENTRIES = 4096
"""Entries read for one take or one eviction, at most: a million tokens, of which a take returns a few per cent."""

_PUT = """
local used = tonumber(redis.call('HGET', KEYS[3], 'bytes') or '0')
if used + tonumber(ARGV[3]) > tonumber(ARGV[5]) then return 0 end
local now = redis.call('TIME')
local last = tonumber(redis.call('HGET', KEYS[3], 'sequence') or '0')
local id = string.format('%016.0f', math.max(last + 1, tonumber(now[1]) * 1000000 + tonumber(now[2])))
local first = redis.pcall('HSET', KEYS[3], 'sequence', id)
if type(first) == 'table' and first.err then
  if string.find(first.err, 'OOM') then return -1 end
  return first
end
redis.call('HSET', KEYS[1], id, ARGV[1])
redis.call('HSET', KEYS[2], id, ARGV[2])
redis.call('ZADD', KEYS[4], id, id)
redis.call('ZADD', KEYS[5], ARGV[6], id)
redis.call('HINCRBY', KEYS[3], 'bytes', ARGV[3])
redis.call('HINCRBY', KEYS[3], 'tokens', ARGV[4])
return 1
"""
"""
Frame, index entry, bytes, states, budget, policy -> 1; 0 if the frame does not fit; -1 if Redis has reached its memory
limit. Redis refuses the first write of a script only, so that a frame is stored whole or not at all.

Sequence numbers are microseconds of Redis' clock, so that they go on increasing after a flush. All have 16 digits, so
that frames of one policy are sorted by them.
"""

_REMOVE = """
local removed = 0
for i = 1, #ARGV, 3 do
  if redis.call('HDEL', KEYS[2], ARGV[i]) == 1 then
    redis.call('HDEL', KEYS[1], ARGV[i])
    redis.call('ZREM', KEYS[4], ARGV[i])
    redis.call('ZREM', KEYS[5], ARGV[i])
    redis.call('HINCRBY', KEYS[3], 'bytes', -ARGV[i + 1])
    redis.call('HINCRBY', KEYS[3], 'tokens', -ARGV[i + 2])
    removed = removed + 1
  end
end
redis.call('HINCRBY', KEYS[3], 'evicted', removed)
return removed
"""
"""(Sequence number, bytes, states) for each frame -> number of frames removed."""


class RedisFrameStore:
    """
    A FrameStore that survives restarts of the service and is shared by its replicas.

    Args:
        url: redis://, rediss:// or unix://.
        fleet: Prefix of the keys. Fleets do not see each other's frames.
        budget_bytes: Byte budget for frames.
        tls: Options of the client for rediss://.
    """

    def __init__(
        self, url: str, *, fleet: str, budget_bytes: int, tls: Mapping[str, Any] = MappingProxyType({})
    ) -> None:
        self._redis: Redis = Redis.from_url(
            url,
            socket_connect_timeout=CONNECT_S,
            socket_timeout=ANSWER_S,
            # Retries are left to callers: engines must learn quickly that frames cannot be stored.
            retry=Retry(NoBackoff(), 0),
            **tls,
        )
        self._budget_bytes = budget_bytes
        self._keys = tuple(f"{{tlt:{fleet}}}:{part}" for part in ("frames", "entries", "sums", "arrivals", "policies"))
        self._frames, self._index, self._sums, self._arrivals, self._policies = self._keys
        self._put = self._redis.register_script(_PUT)
        self._remove = self._redis.register_script(_REMOVE)

    async def put(self, frame: EncodedFrame) -> bool:
        if frame.size_bytes > self._budget_bytes:
            return False
        entry = entry_of(frame)
        with _reachable():
            for _ in range(ROUNDS_OF_EVICTION):
                sizes = (entry.size_bytes, entry.tokens, self._budget_bytes)
                args = (frame.blob, entry.packed(), *sizes, entry.policy_version)
                stored = await self._put(keys=self._keys, args=args)
                if stored > 0:
                    return True
                # A Redis that is full has less room than the budget says. Frames must go on to be replaced, or the
                # drafter would be trained on those of an ever older policy.
                within_bytes = self._budget_bytes if stored == 0 else await self._used_bytes()
                if not await self._make_room(frame.size_bytes, within_bytes=within_bytes) and stored < 0:
                    return False
        return False

    async def take(
        self, *, max_tokens: int, seed: int, min_policy_version: int = 0, newer_than: int = 0
    ) -> AsyncIterator[StoredFrame]:
        entries = await self._latest(newer_than)
        chosen = choose(entries, max_tokens=max_tokens, seed=seed, min_policy_version=min_policy_version)
        for at in range(0, len(chosen), FRAMES_PER_READ):
            batch = chosen[at : at + FRAMES_PER_READ]
            with _reachable():
                blobs = await self._redis.hmget(self._frames, [_key(entry.sequence) for entry in batch])
            for entry, blob in zip(batch, blobs, strict=True):
                if blob is not None:
                    yield StoredFrame(entry=entry, blob=_raw(blob))

    async def usage(self) -> CacheUsage:
        with _reachable():
            frames = await self._redis.hlen(self._index)
            sums = await self._redis.hgetall(self._sums)
        return CacheUsage(
            frames=frames,
            tokens=int(sums.get(b"tokens", 0)),
            used_bytes=int(sums.get(b"bytes", 0)),
            budget_bytes=self._budget_bytes,
            evicted=int(sums.get(b"evicted", 0)),
        )

    async def ping(self) -> None:
        with _reachable():
            await self._redis.ping()

    async def aclose(self) -> None:
        await self._redis.aclose()

    async def _used_bytes(self) -> int:
        return int(await self._redis.hget(self._sums, "bytes") or 0)

    async def _make_room(self, needed_bytes: int, *, within_bytes: int) -> bool:
        """Evict frames until that many bytes fit within these; return whether there were any to evict."""
        with _reachable():
            used_bytes = await self._used_bytes()
        spare = spare_bytes(used_bytes=used_bytes, needed_bytes=needed_bytes, budget_bytes=within_bytes)
        chosen = victims(await self._oldest(), spare)
        for at in range(0, len(chosen), ENTRIES_PER_READ):
            batch = chosen[at : at + ENTRIES_PER_READ]
            args = [part for entry in batch for part in (_key(entry.sequence), entry.size_bytes, entry.tokens)]
            with _reachable():
                await self._remove(keys=self._keys, args=args)
        return bool(chosen)

    async def _latest(self, newer_than: int) -> list[Entry]:
        """Return the latest MAX_ENTRIES entries that arrived after a sequence number."""
        entries: list[Entry] = []
        below = "+inf"
        while len(entries) < MAX_ENTRIES:
            with _reachable():
                found = await self._redis.zrevrangebyscore(
                    self._arrivals, below, f"({newer_than}", start=0, num=ENTRIES_PER_READ
                )
            keys = _sequences(found)
            entries += await self._read(keys)
            if len(keys) < ENTRIES_PER_READ:
                break
            below = f"({keys[-1]}"
        return entries

    async def _oldest(self) -> list[Entry]:
        """Return MAX_ENTRIES entries of the oldest policies; within a policy, those that arrived first."""
        entries: list[Entry] = []
        for at in range(0, MAX_ENTRIES, ENTRIES_PER_READ):
            with _reachable():
                found = await self._redis.zrange(self._policies, at, at + ENTRIES_PER_READ - 1)
            keys = _sequences(found)
            entries += await self._read(keys)
            if len(keys) < ENTRIES_PER_READ:
                break
        return entries

    async def _read(self, sequences: list[int]) -> list[Entry]:
        if not sequences:
            return []
        with _reachable():
            lines = await self._redis.hmget(self._index, [_key(sequence) for sequence in sequences])
        found = zip(sequences, lines, strict=True)
        return [unpacked(sequence, _raw(line)) for sequence, line in found if line is not None]


def _sequences(members: Iterable[Any]) -> list[int]:
    # Typed as bytes, str or pairs with scores, by options that are not used.
    return [int(member) for member in members]


def _key(sequence: int) -> str:
    return f"{sequence:016d}"


def _raw(value: bytes | str) -> bytes:
    # The client returns str only with decode_responses, which is not set.
    return value if isinstance(value, bytes) else value.encode()


@contextmanager
def _reachable() -> Iterator[None]:
    """
    Translate errors of the Redis client.

    Raises:
        CacheUnavailableError: Redis did not respond, or returned an error.
        CancelledError: The task was cancelled. The client (redis 8.1) loses some cancellations while it connects, and a
            service that is shutting down would continue.
    """
    task = asyncio.current_task()
    before = task.cancelling() if task else 0
    try:
        yield
    except (RedisError, OSError) as error:
        if not (task and task.cancelling() > before):
            raise CacheUnavailableError(f"Redis cannot be used: {error}") from error
    if task and task.cancelling() > before:
        raise asyncio.CancelledError
