"""
Frames in Redis.

Three keys per fleet, in one slot of a cluster: a hash of frames, a hash with a line of the index for each, and the
sums. They change together, in scripts, so that replicas of the service may share them: a frame is counted exactly
while it is there, and removing it twice counts once. What to evict is decided here (`eviction`), from the index.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from tlt_cache.entry import Entry, entry_of, unpacked
from tlt_cache.eviction import victims
from tlt_cache.selection import choose
from tlt_common.codec import decode, encode
from tlt_common.domain.hidden import CacheUsage, HiddenFrame
from tlt_common.errors import CacheUnavailableError

CONNECT_S = 2.0
ANSWER_S = 5.0
FRAMES_PER_READ = 8
"""At 256 states of 4096 bfloat16 elements, 16 MiB: what one read may hold in memory."""
ROUNDS_OF_EVICTION = 8
"""Others may fill the room just made; after so many rounds the frame is dropped instead."""

_PUT = """
local used = tonumber(redis.call('HGET', KEYS[3], 'bytes') or '0')
if used + tonumber(ARGV[3]) > tonumber(ARGV[5]) then return 0 end
local id = redis.call('HINCRBY', KEYS[3], 'sequence', 1)
redis.call('HSET', KEYS[1], id, ARGV[1])
redis.call('HSET', KEYS[2], id, ARGV[2])
redis.call('HINCRBY', KEYS[3], 'bytes', ARGV[3])
redis.call('HINCRBY', KEYS[3], 'tokens', ARGV[4])
return id
"""
"""Frame, line of the index, bytes, states, budget -> sequence number, or 0 if it does not fit."""

_REMOVE = """
local removed = 0
for i = 1, #ARGV, 3 do
  if redis.call('HDEL', KEYS[2], ARGV[i]) == 1 then
    redis.call('HDEL', KEYS[1], ARGV[i])
    redis.call('HINCRBY', KEYS[3], 'bytes', -ARGV[i + 1])
    redis.call('HINCRBY', KEYS[3], 'tokens', -ARGV[i + 2])
    removed = removed + 1
  end
end
redis.call('HINCRBY', KEYS[3], 'evicted', removed)
return removed
"""
"""(Sequence number, bytes, states) for each frame -> how many were still there."""


class RedisStore:
    """
    A FrameStore that survives the service, and that its replicas share.

    Args:
        url: redis://, rediss:// or unix://.
        fleet: Prefix of the keys. Fleets do not see each other's frames.
    """

    def __init__(self, url: str, *, fleet: str, budget_bytes: int) -> None:
        self._redis: Redis = Redis.from_url(
            url,
            socket_connect_timeout=CONNECT_S,
            socket_timeout=ANSWER_S,
            # Trying again is the callers' business: an engine must hear soon that there is nowhere to put frames.
            retry=Retry(NoBackoff(), 0),
        )
        self._budget_bytes = budget_bytes
        self._keys = tuple(f"{{tlt:{fleet}}}:{part}" for part in ("frames", "index", "sums"))
        self._frames, self._index, self._sums = self._keys
        self._put = self._redis.register_script(_PUT)
        self._remove = self._redis.register_script(_REMOVE)

    async def put(self, frame: HiddenFrame) -> bool:
        if frame.size_bytes > self._budget_bytes:
            return False
        line, blob = entry_of(frame).packed(), encode(frame)
        with _reachable():
            for _ in range(ROUNDS_OF_EVICTION):
                args = (blob, line, frame.size_bytes, frame.token_count, self._budget_bytes)
                if await self._put(keys=self._keys, args=args):
                    return True
                await self._make_room(frame.size_bytes)
        return False

    async def take(self, *, max_tokens: int, seed: int, min_policy_version: int = 0) -> AsyncIterator[HiddenFrame]:
        entries = await self._entries()
        chosen = choose(entries, max_tokens=max_tokens, seed=seed, min_policy_version=min_policy_version)
        for at in range(0, len(chosen), FRAMES_PER_READ):
            ids = [entry.sequence for entry in chosen[at : at + FRAMES_PER_READ]]
            with _reachable():
                blobs = await self._redis.hmget(self._frames, ids)
            for blob in blobs:
                if blob is not None:
                    yield decode(_raw(blob))

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

    async def _make_room(self, needed_bytes: int) -> None:
        chosen = victims(await self._entries(), needed_bytes=needed_bytes, budget_bytes=self._budget_bytes)
        if chosen:
            args = [number for entry in chosen for number in (entry.sequence, entry.size_bytes, entry.tokens)]
            with _reachable():
                await self._remove(keys=self._keys, args=args)

    async def _entries(self) -> tuple[Entry, ...]:
        with _reachable():
            lines = await self._redis.hgetall(self._index)
        return tuple(unpacked(int(sequence), _raw(line)) for sequence, line in lines.items())


def _raw(value: bytes | str) -> bytes:
    # The client answers text only where it is told to decode, which ours is not.
    return value if isinstance(value, bytes) else value.encode()


@contextmanager
def _reachable() -> Iterator[None]:
    """
    Raises:
        CacheUnavailableError: Redis did not answer, or refused.
        CancelledError: The task was cancelled meanwhile. The client (redis 8.1) loses some cancellations while it
            connects, and a service that was told to end would go on.
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
