"""One contract for the store in memory and the one in Redis."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from redis.asyncio import Redis
from redis.crc import key_slot

from tlt_cache.embedded import embedded_redis
from tlt_cache.frame_store import FrameStore
from tlt_cache.memory_frame_store import MemoryFrameStore
from tlt_cache.redis_frame_store import RedisFrameStore
from tlt_common.codec import encode, read
from tlt_common.domain.hidden import EncodedFrame, FrameHeader
from tlt_common.domain.ids import PolicyVersion, RequestId

MIB = 2**20


def frame(
    request: str = "r", *, start: int = 0, policy: int = 0, tokens: int = 10, response: int = 50, fill: int = 1
) -> EncodedFrame:
    header = FrameHeader(
        request_id=RequestId(f"{request:<6}"),
        policy_version=PolicyVersion(policy),
        prompt_hash=7,
        start=start,
        token_count=tokens,
        hidden_size=16,
        dtype="BF16",
        prompt_tokens=5,
        response_tokens=response,
        finished=True,
    )
    return encode(header, range(start, start + tokens + 1), [bytes([fill]) * header.hidden_bytes])


SIZE = frame().size_bytes


class Stores:
    """Makes stores of one kind that share what is behind them."""

    def __init__(self, redis_url: str | None) -> None:
        self._redis_url = redis_url
        self.made: list[FrameStore] = []

    def make(self, budget_bytes: int, fleet: str = "default") -> FrameStore:
        store: FrameStore
        if self._redis_url is None:
            store = MemoryFrameStore(budget_bytes=budget_bytes)
        else:
            store = RedisFrameStore(self._redis_url, fleet=fleet, budget_bytes=budget_bytes)
        self.made.append(store)
        return store

    async def cost(self) -> int:
        """
        What a store uses for one `frame()`: with what Redis needs beside its bytes. Roughly: the C library sometimes
        allocates a few bytes more for an equal payload.
        """
        store = self.make(MIB, fleet="cost")
        await store.put([frame()])
        return (await store.usage()).used_bytes


@pytest.fixture(params=["memory", "redis"])
async def stores(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Stores]:
    async with AsyncExitStack() as stack:
        url = None
        if request.param == "redis":
            url = (await stack.enter_async_context(embedded_redis(None, max_bytes=64 * MIB))).url
        made = Stores(url)
        yield made
        for store in made.made:
            await store.aclose()


async def taken(store: FrameStore, *, max_tokens: int = 10_000, seed: int = 1, oldest: int = 0) -> list[EncodedFrame]:
    return [
        read(stored.blob) async for stored in store.take(max_tokens=max_tokens, seed=seed, min_policy_version=oldest)
    ]


async def counted(store: FrameStore) -> int:
    """The sum of what the stored frames use, each by its own index entry."""
    return sum([stored.entry.size_bytes async for stored in store.take(max_tokens=10_000, seed=1)])


async def test_what_was_put_is_taken_unchanged_and_stays(stores: Stores) -> None:
    store = stores.make(MIB)
    frames = [frame(f"r{n}", start=n, fill=n) for n in range(20)]
    for one in frames:
        assert await store.put([one])
    for _ in range(2):
        assert sorted(await taken(store), key=lambda f: f.header.start) == frames


async def test_a_payload_nobody_could_decode_is_kept_as_it_came(stores: Stores) -> None:
    store, good = stores.make(MIB), frame()
    noise = bytes(range(256)) * 8
    blob = good.blob[: -good.header.payload_bytes] + noise[: good.header.payload_bytes]
    assert await store.put([read(blob)])
    assert [stored.blob async for stored in store.take(max_tokens=100, seed=1)] == [blob]


async def test_only_what_came_after_a_cursor_is_taken(stores: Stores) -> None:
    store = stores.make(MIB)
    for n in range(5):
        await store.put([frame(f"old{n}")])
    cursor = max([stored.entry.sequence async for stored in store.take(max_tokens=1000, seed=1)])
    assert [stored async for stored in store.take(max_tokens=1000, seed=1, newer_than={0: cursor})] == []
    for n in range(3):
        await store.put([frame(f"new{n}")])
    found = [stored async for stored in store.take(max_tokens=1000, seed=1, newer_than={0: cursor})]
    assert {stored.entry.request_id.strip() for stored in found} == {"new0", "new1", "new2"}
    assert all(stored.entry.sequence > cursor for stored in found)


async def test_more_entries_than_one_read_holds_are_taken_and_evicted(stores: Stores) -> None:
    store = stores.make(1500 * await stores.cost())
    for n in range(1400):
        await store.put([frame(f"r{n:04d}", policy=n // 100)])
    assert len(await taken(store, max_tokens=100_000)) == 1400
    for n in range(200):
        await store.put([frame(f"n{n:04d}", policy=99)])
    usage = await store.usage()
    assert usage.frames + usage.evicted == 1600
    kept = {f.header.policy_version for f in await taken(store, max_tokens=100_000)}
    assert 0 not in kept
    assert {13, 99} <= kept


async def test_cursors_go_on_after_a_redis_was_flushed(tmp_path: Path) -> None:
    async with embedded_redis(None, max_bytes=64 * MIB) as redis:
        store, client = RedisFrameStore(redis.url, fleet="a", budget_bytes=MIB), Redis.from_url(redis.url)
        await store.put([frame("before")])
        (before,) = [stored.entry.sequence async for stored in store.take(max_tokens=100, seed=1)]
        await client.flushall()
        await store.put([frame("after")])
        found = [stored async for stored in store.take(max_tokens=100, seed=1, newer_than={0: before})]
        assert [stored.entry.request_id.strip() for stored in found] == ["after"]
        await client.aclose()
        await store.aclose()


async def test_all_keys_of_a_fleet_are_in_one_slot_of_a_cluster() -> None:
    async with embedded_redis(None, max_bytes=64 * MIB) as redis:
        store, client = RedisFrameStore(redis.url, fleet="a", budget_bytes=MIB), Redis.from_url(redis.url)
        await store.put([frame()])
        keys = [key if isinstance(key, bytes) else key.encode() for key in await client.keys()]
        assert len(keys) == 5  # four of the index, one payload
        assert len({key_slot(key) for key in keys}) == 1
        await client.aclose()
        await store.aclose()


async def test_an_empty_store_hands_out_nothing(stores: Stores) -> None:
    store = stores.make(MIB)
    assert await taken(store) == []
    assert (await store.usage()).frames == 0
    await store.ping()


async def test_the_same_seed_takes_the_same_frames(stores: Stores) -> None:
    store = stores.make(MIB)
    for n in range(30):
        await store.put([frame(f"r{n}")])
    assert await taken(store, max_tokens=100, seed=7) == await taken(store, max_tokens=100, seed=7)
    assert len(await taken(store, max_tokens=100, seed=7)) == 10


async def test_policies_below_the_least_wanted_are_left_out(stores: Stores) -> None:
    store = stores.make(MIB)
    for policy in range(4):
        await store.put([frame(f"r{policy}", policy=policy)])
    assert {f.header.policy_version for f in await taken(store, oldest=2)} == {2, 3}


async def test_usage_counts_what_is_there(stores: Stores) -> None:
    store = stores.make(MIB)
    for n in range(3):
        await store.put([frame(f"r{n}")])
    usage = await store.usage()
    assert (usage.frames, usage.tokens, usage.budget_bytes) == (3, 30, MIB)
    assert usage.used_bytes == await counted(store) >= 3 * SIZE
    assert usage.evicted == 0


async def test_the_budget_is_never_exceeded_and_the_oldest_policy_goes_first(stores: Stores) -> None:
    budget = 10 * await stores.cost()
    store = stores.make(budget)
    for n in range(40):
        assert await store.put([frame(f"r{n}", policy=n // 10)])
        assert (await store.usage()).used_bytes <= budget
    usage = await store.usage()
    assert usage.evicted == 40 - usage.frames
    assert usage.tokens == 10 * usage.frames
    assert {f.header.policy_version for f in await taken(store)} == {3}


async def test_long_responses_stay_longer(stores: Stores) -> None:
    store = stores.make(10 * await stores.cost())
    for n in range(5):
        await store.put([frame(f"long{n}", response=1000)])
    for n in range(50):
        await store.put([frame(f"short{n}", response=10)])
    assert sum(f.header.response_tokens == 1000 for f in await taken(store)) == 5


async def test_a_frame_above_the_budget_is_dropped(stores: Stores) -> None:
    store = stores.make(2 * await stores.cost())
    await store.put([frame("small")])
    assert not await store.put([frame("big", tokens=100)])
    assert [f.header.request_id.strip() for f in await taken(store)] == ["small"]


async def test_writers_at_the_same_time_keep_the_account_exact(stores: Stores) -> None:
    budget = 10 * await stores.cost()
    store = stores.make(budget)
    kept = await asyncio.gather(*(store.put([frame(f"r{n}", policy=n % 3)]) for n in range(60)))
    usage = await store.usage()
    assert usage.used_bytes == await counted(store) <= budget
    assert usage.frames + usage.evicted == sum(kept)
    assert len(await taken(store)) == usage.frames


async def test_replicas_share_a_redis_and_fleets_do_not(tmp_path: Path) -> None:
    async with embedded_redis(None, max_bytes=64 * MIB) as redis:
        stores = Stores(redis.url)
        budget = 10 * await stores.cost()
        one, two, other = (stores.make(budget, fleet=fleet) for fleet in ("a", "a", "b"))
        await asyncio.gather(*(store.put([frame(f"r{n}")]) for n in range(30) for store in (one, two)))
        usage = await one.usage()
        assert usage == await two.usage()
        assert usage.used_bytes == await counted(one) <= budget
        assert await taken(other) == []
        for store in stores.made:
            await store.aclose()


async def test_a_cancelled_call_ends_at_whatever_moment(tmp_path: Path) -> None:
    async with embedded_redis(None, max_bytes=64 * MIB) as redis:
        for turns in range(30):
            store = RedisFrameStore(redis.url, fleet="a", budget_bytes=MIB)
            call = asyncio.create_task(store.ping())
            for _ in range(turns):
                await asyncio.sleep(0)
            came_in_time = call.cancel()
            await asyncio.wait([call])
            assert call.cancelled() or not came_in_time
            await store.aclose()
