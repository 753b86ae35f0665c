"""Workers that receive a release from each other or the gateway, or share its file, over real connections."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
import torch

from tests.fakes.eventually import eventually
from tests.integration.gateway.conftest import served
from tests.integration.worker.live_worker import Bench, working
from tlt_common.domain.ids import PolicyVersion
from tlt_common.domain.weights import ReleaseId, StageOrder, TensorChunk
from tlt_common.errors import WeightsUnreadableError
from tlt_common.rpc.errors import translated
from tlt_common.wire import worker as wire
from tlt_gateway.config import GatewayConfig

CHUNKS = [
    TensorChunk(name=f"t{number}", dtype="F32", shape=(2,), offset_bytes=0, data=bytes([number + 1] * 8))
    for number in range(6)
]
RELEASE = ReleaseId(version=PolicyVersion(1), key="k")
STATE = {f"layer.{index}": torch.full((1000,), float(index)) for index in range(5)}


async def staged(bench: Bench, peers: tuple[str, ...] = (), tensors: AsyncIterator[TensorChunk] | None = None) -> str:
    """Stage the release; return its digest."""

    async def messages() -> AsyncIterator[wire.pb.StageWeightsRequest]:
        yield wire.stage_to_pb(StageOrder(release=RELEASE, peers=peers))
        if tensors is not None:
            async for chunk in tensors:
                yield wire.stage_to_pb(chunk)

    with translated():
        return (await wire.Stub(bench.channel).StageWeights(messages())).digest


async def all_chunks() -> AsyncIterator[TensorChunk]:
    for chunk in CHUNKS:
        yield chunk


def files(directory: Path) -> list[Path]:
    """Return the spools' files in a directory."""
    return list(directory.glob("weights-*/model.safetensors"))


def received(bench: Bench) -> bytes:
    """Return what a worker has on disk."""
    found = files(bench.run_dir / "weights")
    return found[0].read_bytes() if found else b""


@pytest.fixture
async def three(tmp_path: Path) -> AsyncIterator[list[Bench]]:
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(working(Bench(tmp_path / str(index)))) for index in range(3)]


async def test_a_release_passes_along_a_chain_while_it_arrives(three: list[Bench]) -> None:
    more = asyncio.Event()

    async def slow() -> AsyncIterator[TensorChunk]:
        yield CHUNKS[0]
        await more.wait()
        for chunk in CHUNKS[1:]:
            yield chunk

    first, second, third = three
    async with asyncio.TaskGroup() as group:
        calls = [
            group.create_task(staged(first, tensors=slow())),
            group.create_task(staged(second, (first.address,))),
            group.create_task(staged(third, (second.address, first.address))),
        ]
        await eventually(lambda: CHUNKS[0].data in received(third))
        assert not any(call.done() for call in calls)
        more.set()
    assert len({call.result() for call in calls}) == 1
    assert received(first) == received(second) == received(third)


async def test_a_peer_that_leaves_halfway_is_replaced_by_another(three: list[Bench]) -> None:
    first, second, third = three
    halfway, never = asyncio.Event(), asyncio.Event()

    async def broken() -> AsyncIterator[TensorChunk]:
        for chunk in CHUNKS[:3]:
            yield chunk
        halfway.set()
        await never.wait()

    await staged(first, tensors=all_chunks())
    feeding = asyncio.ensure_future(staged(second, tensors=broken()))
    await halfway.wait()
    following = asyncio.ensure_future(staged(third, (second.address, first.address)))
    await eventually(lambda: CHUNKS[2].data in received(third))
    feeding.cancel()
    await asyncio.wait({feeding})
    await following
    assert received(third) == received(first)


async def test_without_peers_that_have_it_a_worker_says_that_it_cannot_read_the_weights(three: list[Bench]) -> None:
    with pytest.raises(WeightsUnreadableError, match=r"no peer provides release 1 \(k\)"):
        await staged(three[0], (three[1].address,))
    await staged(three[0], tensors=all_chunks())


async def test_an_update_reaches_all_workers_of_a_gateway_and_replaces_the_one_before(three: list[Bench]) -> None:
    config = GatewayConfig(workers=tuple(bench.address for bench in three))
    async with served(config, workers=3) as client:
        for version in (1, 2):
            assert (await client.publish_weights(version, STATE)).workers == 3
            # The file of the release before is deleted in the background.
            await eventually(lambda: all(len(files(bench.run_dir / "weights")) == 1 for bench in three))
            assert received(three[0]) == received(three[1]) == received(three[2]) != b""
            assert {bench.engine.policy_version for bench in three} == {version}


async def test_workers_that_share_the_gateways_spool_hold_no_copy(three: list[Bench], tmp_path: Path) -> None:
    spool = tmp_path / "spool"
    config = GatewayConfig(workers=tuple(bench.address for bench in three), spool_dir=spool, spool_shared=True)
    async with served(config, workers=3) as client:
        for version in (1, 2):
            assert (await client.publish_weights(version, STATE)).workers == 3
            assert {bench.engine.policy_version for bench in three} == {version}
        assert not any(files(bench.run_dir / "weights") for bench in three)
        assert len(files(spool)) == 2, "what is served, and the release before it"


async def test_a_worker_that_joins_later_receives_what_a_gateway_found_on_its_disk(
    three: list[Bench], tmp_path: Path
) -> None:
    spool = tmp_path / "spool"
    config = GatewayConfig(workers=(three[0].address,), spool_dir=spool)
    async with served(config, workers=1) as client:
        await client.publish_weights(1, STATE)
        await eventually(lambda: bool(list(spool.glob("weights-*/release.json"))))
    # Another gateway with the same spool, and with two workers that serve nothing.
    others = config.model_copy(update={"workers": tuple(bench.address for bench in three[1:])})
    async with served(others, workers=2):
        assert {bench.engine.policy_version for bench in three} == {1}
        assert received(three[0]) == received(three[1]) == received(three[2]) != b""
