"""The budget is what Redis uses: its own count of memory agrees with ours."""

import asyncio
import random
from collections.abc import Sequence

import pytest
from redis.asyncio import Redis

from tests.contract.test_store import frame
from tlt_cache.embedded import embedded_redis
from tlt_cache.redis_frame_store import RedisFrameStore
from tlt_common.domain.hidden import EncodedFrame

MIB = 2**20
BUDGET = 24 * MIB


def batches(tokens: Sequence[int]) -> list[list[EncodedFrame]]:
    """Twice the budget of frames, in batches. One state has 32 bytes."""
    made, size = list[EncodedFrame](), 0
    while size < 2 * BUDGET:
        made.append(frame(f"r{len(made)}", tokens=tokens[len(made) % len(tokens)], policy=len(made) // 500))
        size += made[-1].size_bytes + 400
    return [made[at : at + 200] for at in range(0, len(made), 200)]


@pytest.mark.parametrize("tokens", [(8,), (128,), (2_000,), (60_000,), (8, 300, 5_000)])
async def test_what_redis_uses_is_within_5_percent_of_the_account(tokens: Sequence[int]) -> None:
    async with embedded_redis(None, max_bytes=256 * MIB) as redis, Redis.from_url(redis.url) as raw:
        store = RedisFrameStore(redis.url, fleet="a", budget_bytes=BUDGET)
        await store.ping()
        idle = (await raw.info("memory"))["used_memory"]
        for batch in batches(tokens):
            assert await store.put(batch) == len(batch)
        usage = await store.usage()
        assert usage.evicted > 0
        assert 0.8 * BUDGET < usage.used_bytes <= BUDGET
        await store.aclose()  # and with it the buffers of its connection, as soon as Redis has noticed
        async with asyncio.timeout(30):
            while len(await raw.client_list()) > 1 or (await raw.info("memory"))["lazyfree_pending_objects"]:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        used = (await raw.info("memory"))["used_memory"] - idle
        assert used == pytest.approx(usage.used_bytes, rel=0.05)


async def test_everything_evicted_leaves_nothing_behind() -> None:
    async with embedded_redis(None, max_bytes=256 * MIB) as redis, Redis.from_url(redis.url) as raw:
        store = RedisFrameStore(redis.url, fleet="a", budget_bytes=MIB)
        await asyncio.gather(*(store.put([frame(f"r{n}-{m}") for m in range(100)]) for n in range(40)))
        usage = await store.usage()
        names = await raw.keys("*:frame:*")
        assert len(names) == usage.frames
        assert all([await raw.ttl(name) == -1 for name in random.Random(0).sample(names, 20)])
        await store.aclose()


async def test_a_payload_that_was_never_admitted_expires() -> None:
    async with embedded_redis(None, max_bytes=256 * MIB) as redis, Redis.from_url(redis.url) as raw:
        store = RedisFrameStore(redis.url, fleet="a", budget_bytes=MIB)
        await raw.config_set("maxmemory", 1)
        assert await store.put([frame()]) == 0
        assert await raw.keys("*:frame:*") == []
        await store.aclose()
