import asyncio
import errno
import os
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.tlt_worker.weights_bench import CHUNK, Bench, release, running, stream
from tlt_common.domain.weights import StageOrder, TensorChunk
from tlt_common.errors import (
    NotFoundError,
    StaleVersionError,
    UnavailableError,
    WeightsError,
    WeightsUnreadableError,
)
from tlt_worker.weights.held_release import HeldRelease


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    async with running(tmp_path / "weights") as bench:
        yield bench


async def test_staging_what_is_staged_or_served_again_changes_nothing(bench: Bench) -> None:
    size = await bench.stage(1, key="k")
    spools = bench.spools
    assert await bench.stage(1, (), key="k") == size
    assert bench.spools == spools
    await bench.commit(1, "k")
    await bench.stage(1, (), key="k")
    assert bench.spools == spools
    assert await bench.commit(1, "k") == 0.0


async def test_of_two_updates_of_one_version_the_greater_key_wins_in_either_order(bench: Bench) -> None:
    await bench.stage(1, key="b")
    with pytest.raises(StaleVersionError, match=r"1 \(a\) was overtaken by 1 \(b\)"):
        await bench.stage(1, key="a")
    await bench.stage(1, key="c")
    with pytest.raises(StaleVersionError, match=r"staged is 1 \(c\)"):
        await bench.commit(1, "b")
    await bench.commit(1, "c")
    with pytest.raises(StaleVersionError):
        await bench.stage(1, key="b")
    assert bench.weights.release.id.key == "c"


async def test_a_greater_release_ends_the_call_that_receives_a_smaller_one(bench: Bench) -> None:
    arriving = asyncio.Event()

    async def slow() -> AsyncIterator[TensorChunk]:
        yield CHUNK
        arriving.set()
        await asyncio.Event().wait()

    call = asyncio.ensure_future(bench.weights.stage(StageOrder(release=release(1, "a")), slow()))
    await arriving.wait()
    await bench.stage(1, key="b")
    with pytest.raises(StaleVersionError, match="overtaken"):
        await call
    await bench.commit(1, "b")


async def test_content_that_contradicts_the_updates_digest_is_not_served(bench: Bench) -> None:
    await bench.stage(1)
    with pytest.raises(WeightsError, match="digest"):
        await bench.weights.commit(replace(release(1), digest="tensors:00"))
    assert bench.weights.version == 0


async def test_a_full_disk_is_told_apart_from_bad_weights(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(WeightsUnreadableError, match="No space left"):
        await bench.stage(1)
    assert bench.spools == []


async def test_peers_follow_a_release_while_it_arrives(bench: Bench) -> None:
    begun, more = asyncio.Event(), asyncio.Event()
    second = TensorChunk(name="b", dtype="F32", shape=(1,), offset_bytes=0, data=bytes(4))

    async def slow() -> AsyncIterator[TensorChunk]:
        begun.set()
        yield CHUNK
        yield second
        await more.wait()

    call = asyncio.ensure_future(bench.weights.stage(StageOrder(release=release(1)), slow()))
    await begun.wait()
    followed = aiter((await bench.weights.held(release(1)).log()).follow(0))
    assert await anext(followed) == CHUNK
    assert not call.done()
    more.set()
    assert [chunk async for chunk in followed] == [second]
    await call
    assert [chunk async for chunk in (await bench.weights.held(release(1)).log()).follow(1)] == [second]
    with pytest.raises(NotFoundError):
        bench.weights.held(release(2))


async def test_followers_of_a_release_that_is_given_up_are_told(bench: Bench) -> None:
    await bench.stage(1)
    followed = aiter((await bench.weights.held(release(1)).log()).follow(0))
    assert await anext(followed) == CHUNK
    held = bench.weights.held(release(1))
    await bench.weights.discard(release(1))
    with pytest.raises(UnavailableError):
        await anext(aiter((await held.log()).follow(0)))


async def test_an_update_does_not_replace_another_of_the_same_version_that_is_served_but_a_join_does(
    bench: Bench,
) -> None:
    await bench.stage(1, key="a")
    await bench.commit(1, "a")
    with pytest.raises(StaleVersionError, match=r"1 \(b\) is stale: 1 \(a\)"):
        await bench.stage(1, key="b")
    await bench.weights.stage(StageOrder(release=release(1, "b"), joining=True), stream(CHUNK))
    await bench.commit(1, "b")
    assert bench.weights.release.id.key == "b"


async def test_an_update_that_is_being_switched_to_counts_as_served(bench: Bench) -> None:
    await bench.stage(1, key="a")
    bench.engine.gate.clear()
    switch = asyncio.ensure_future(bench.commit(1, "a"))
    await bench.engine.loading.wait()
    with pytest.raises(StaleVersionError, match="is stale"):
        await bench.stage(1, key="b")
    bench.engine.gate.set()
    await switch


async def test_weights_made_of_a_release_are_switched_to_only_while_it_is_served(bench: Bench, tmp_path: Path) -> None:
    await bench.stage(1, key="a")
    await bench.commit(1, key="a")
    with pytest.raises(StaleVersionError, match="changes of 0; served: 1"):
        await bench.weights.stage(StageOrder(release=release(2, "c"), base=release(0)), stream(CHUNK))
    await bench.weights.stage(StageOrder(release=release(3, "c"), base=release(1, "a")), stream(CHUNK))
    other = HeldRelease(release(2, "b"), directory=tmp_path)
    bench.weights._served = other  # another gateway's update, between the two phases
    with pytest.raises(StaleVersionError, match=r"changes of 1 .a.; served: 2 .b."):
        await bench.commit(3, key="c")
    assert bench.weights.release.id == other.id
