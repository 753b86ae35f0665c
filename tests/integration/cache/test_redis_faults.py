"""A Redis that is full, slow, flushed or restarted: frames may be lost, the cache is not."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.contract.test_store import frame as any_frame
from tlt_bench.campaign.storage.redis import RedisControl
from tlt_cache.embedded import EmbeddedRedis
from tlt_cache.redis_frame_store import RedisFrameStore
from tlt_common.domain.hidden import EncodedFrame
from tlt_common.errors import CacheUnavailableError

MIB = 2**20
BUDGET = 4 * MIB


def frame(number: int, *, policy: int = 0) -> EncodedFrame:
    return any_frame(f"r{number}", tokens=2000, policy=policy)


@pytest.fixture
async def redis(tmp_path: Path) -> AsyncIterator[EmbeddedRedis]:
    process = EmbeddedRedis(tmp_path, max_bytes=64 * MIB)
    await process.start()
    yield process
    await process.stop()


@pytest.fixture
def control(redis: EmbeddedRedis) -> RedisControl:
    return RedisControl(socket=Path(redis.url.removeprefix("unix://")))


@pytest.fixture
async def store(redis: EmbeddedRedis) -> AsyncIterator[RedisFrameStore]:
    store = RedisFrameStore(redis.url, fleet="f", budget_bytes=BUDGET)
    yield store
    await store.aclose()


async def taken(store: RedisFrameStore) -> int:
    return len([found async for found in store.take(max_tokens=10**6, seed=0)])


async def test_a_redis_with_less_room_than_the_budget_goes_on_taking_new_frames(
    store: RedisFrameStore, control: RedisControl
) -> None:
    await store.put([frame(0)])
    size = (await store.usage()).used_bytes
    await control.flush()
    for number in range(40):
        assert await store.put([frame(number, policy=1)])
    await control.set_limit(await _used(control))  # full, although the budget is not
    kept = [await store.put([frame(100 + number, policy=2)]) for number in range(20)]
    assert all(kept)
    policies = [found.entry.policy_version async for found in store.take(max_tokens=10**6, seed=0)]
    assert policies.count(2) == 20
    assert 0 < policies.count(1) < 40  # the oldest made room
    usage = await store.usage()
    assert usage.frames == len(policies)
    assert usage.used_bytes == pytest.approx(len(policies) * size, rel=0.03)  # allocations of equal payloads differ
    assert usage.evicted > 0


async def test_a_redis_without_any_room_drops_frames_and_says_so(store: RedisFrameStore, control: RedisControl) -> None:
    limit = await control.limit()
    await control.set_limit("1")
    assert not await store.put([frame(1)])
    await store.ping()
    await control.set_limit(limit)
    assert await store.put([frame(1)])


async def test_a_slow_redis_is_unavailable_and_then_back(store: RedisFrameStore, control: RedisControl) -> None:
    await store.put([frame(1)])
    await control.pause(20.0)
    with pytest.raises(CacheUnavailableError):
        await store.put([frame(2)])
    async with asyncio.timeout(60.0):
        while True:
            try:
                await store.ping()
            except CacheUnavailableError:
                continue
            break
    assert await store.put([frame(3)])
    assert await taken(store) in {2, 3}  # Redis may have stored the frame whose answer was too late


async def test_what_is_flushed_is_gone_and_the_sums_are_right(store: RedisFrameStore, control: RedisControl) -> None:
    for number in range(10):
        await store.put([frame(number)])
    await control.flush()
    assert await taken(store) == 0
    assert (await store.usage()).used_bytes == 0
    await store.put([frame(11)])
    usage = await store.usage()
    assert usage.frames == 1
    assert usage.used_bytes >= frame(11).size_bytes


async def test_a_restarted_redis_is_used_at_once(
    store: RedisFrameStore, redis: EmbeddedRedis, control: RedisControl
) -> None:
    await store.put([frame(1)])
    await control.shut_down()
    with pytest.raises(CacheUnavailableError):
        await store.ping()
    await redis.start()
    assert await store.put([frame(2)])
    assert await taken(store) == 1


async def test_a_primary_that_was_demoted_is_unavailable_until_there_is_one_again(
    store: RedisFrameStore, control: RedisControl
) -> None:
    await store.put([frame(1)])
    await control.command("REPLICAOF", "127.0.0.1", "1")
    with pytest.raises(CacheUnavailableError, match="read only replica"):
        await store.ping()
    await control.command("REPLICAOF", "NO", "ONE")
    await store.ping()
    assert await store.put([frame(2)])
    assert await taken(store) == 2


async def _used(control: RedisControl) -> str:
    """Return the bytes that Redis uses."""
    return await control.command("EVAL", "return string.match(redis.call('INFO','memory'),'used_memory:(%d+)')", "0")
