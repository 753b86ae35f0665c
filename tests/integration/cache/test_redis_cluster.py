"""Shards on a real Redis Cluster: a lost node costs its shards only, and is used again when it is back."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest
from redis.crc import key_slot

from tests.contract.test_store import frame
from tests.fakes.redis_cluster import SLOTS, Node, redis_cluster
from tlt_cache.redis_frame_store import RedisFrameStore, tag_of
from tlt_common.domain.hidden import EncodedFrame
from tlt_common.errors import CacheUnavailableError

MIB = 2**20
BUDGET = 12 * MIB
SHARDS = 3


@pytest.fixture
async def nodes(tmp_path: Path) -> AsyncIterator[list[Node]]:
    async with redis_cluster(tmp_path) as nodes:
        yield nodes


@pytest.fixture
async def store(nodes: list[Node]) -> AsyncIterator[RedisFrameStore]:
    store = RedisFrameStore(f"redis+cluster://127.0.0.1:{nodes[0].port}", fleet="f", budget_bytes=BUDGET, shards=SHARDS)
    yield store
    await store.aclose()


def frames(first: int, count: int, *, policy: int = 0) -> list[EncodedFrame]:
    return [frame(f"r{number}", start=number, policy=policy) for number in range(first, first + count)]


async def taken(store: RedisFrameStore, newer_than: dict[int, int] | None = None) -> tuple[set[int], dict[int, int]]:
    """The first positions of all frames after these cursors, and the cursors to go on with."""
    found, cursors = set[int](), dict(newer_than or {})
    async for stored in store.take(max_tokens=10**6, seed=0, newer_than=newer_than or {}):
        entry = stored.entry
        cursors[entry.shard] = max(cursors.get(entry.shard, 0), entry.sequence)
        number = int(entry.request_id.strip()[1:])
        assert number not in found
        found.add(number)
    return found, cursors


@pytest.mark.parametrize("shards", [2, 3, 6, 12])
def test_shards_are_spread_evenly_over_the_slots(shards: int) -> None:
    tags = [tag_of("fleet", number, shards) for number in range(shards)]
    assert [key_slot(tag.encode()) * shards // SLOTS for tag in tags] == list(range(shards))


async def test_frames_are_on_all_nodes_and_come_back_once(store: RedisFrameStore, nodes: list[Node]) -> None:
    assert await store.put(frames(0, 90)) == 90
    found, cursors = await taken(store)
    assert found == set(range(90))
    assert len(cursors) == SHARDS
    assert all([await node.command("DBSIZE") for node in nodes])
    assert (await taken(store, cursors))[0] == set()
    assert await store.put(frames(90, 30)) == 30
    assert (await taken(store, cursors))[0] == set(range(90, 120))


async def test_the_budget_is_kept_over_all_shards_in_real_bytes(store: RedisFrameStore, nodes: list[Node]) -> None:
    idle = sum([await node.memory() for node in nodes])
    for number in range(100):
        big = [frame(f"r{number}.{n}", tokens=1000, policy=number // 10) for n in range(10)]
        assert await store.put(big) == 10
    usage = await store.usage()
    assert usage.evicted > 0
    assert 0.7 * BUDGET < usage.used_bytes <= BUDGET == usage.budget_bytes
    assert usage.frames + usage.evicted == 1000
    await store.aclose()
    used = sum([await node.memory() for node in nodes]) - idle
    assert used == pytest.approx(usage.used_bytes, rel=0.05)


async def test_a_lost_node_costs_its_shards_only_and_is_used_again(store: RedisFrameStore, nodes: list[Node]) -> None:
    assert await store.put(frames(0, 90)) == 90
    await nodes[1].kill()
    assert 30 <= await store.put(frames(100, 90)) < 90
    assert 30 <= await store.put(frames(200, 90)) < 90
    found, _ = await taken(store)
    assert len(found & set(range(90))) >= 30
    await store.ping()
    await nodes[1].start()
    await _recovered(store)
    cursors = await _cursors(store)
    assert await store.put(frames(400, 90)) == 90
    assert (await taken(store, cursors))[0] == set(range(400, 490))


async def test_without_any_node_it_is_unavailable_and_then_back(store: RedisFrameStore, nodes: list[Node]) -> None:
    assert await store.put(frames(0, 30)) == 30
    for node in nodes:
        await node.kill()
    with pytest.raises(CacheUnavailableError):
        await store.put(frames(30, 30))
    with pytest.raises(CacheUnavailableError):
        await store.ping()
    for node in nodes:
        await node.start()
    await _recovered(store)


async def _cursors(store: RedisFrameStore) -> dict[int, int]:
    """The cursors behind all frames, of which some were put twice."""
    entries = [stored.entry async for stored in store.take(max_tokens=10**6, seed=0)]
    return {
        shard: max(entry.sequence for entry in entries if entry.shard == shard)
        for shard in {entry.shard for entry in entries}
    }


async def _recovered(store: RedisFrameStore) -> None:
    """Wait until all shards store again, as the service does: it pings periodically."""
    async with asyncio.timeout(60):
        while True:
            with suppress(CacheUnavailableError):
                await store.ping()
                if await store.put(frames(300, 90)) == 90:
                    return
            await asyncio.sleep(0.1)
