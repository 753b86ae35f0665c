"""A worker whose devices an RL trainer takes, while a lease, an update or a new drafter is on its way."""

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from tests.fakes.eventually import eventually
from tests.fakes.peers import FakeCoordinator
from tests.integration.worker.live_worker import Bench, working
from tlt_common.domain.fleet import MEMORY_TAGS, DrafterWish, Lease, WorkerState
from tlt_common.domain.ids import DrafterVersion, Epoch
from tlt_common.domain.weights import TensorChunk
from tlt_common.errors import InvalidRequestError
from tlt_common.rpc.errors import translated
from tlt_common.wire import worker as wire

HEAD = TensorChunk(name="head", dtype="BF16", shape=(2,), offset_bytes=0, data=bytes(4))


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    made = Bench(tmp_path)
    made.engine.info = replace(made.engine.info, releasable=True)
    return made


async def release(bench: Bench, *tags: str, limit_s: float | None = None) -> None:
    with translated():
        await wire.Stub(bench.channel).ReleaseMemory(wire.pb.ReleaseMemoryRequest(tags=tags, limit_s=limit_s))


async def resume(bench: Bench, *tags: str) -> None:
    with translated():
        await wire.Stub(bench.channel).ResumeMemory(wire.pb.ResumeMemoryRequest(tags=tags))


async def test_a_lease_ends_before_the_device_is_released_and_the_trainer_returns_after_it(
    bench: Bench, coordinator: FakeCoordinator
) -> None:
    ended_first: list[bool] = []
    releasing = bench.engine.release_memory

    async def watched(tags: Sequence[str]) -> None:
        ended_first.append(bench.trainer.suspended and ("preempt", Epoch(3)) in bench.trainer.calls)
        await releasing(tags)

    bench.engine.release_memory = watched  # type: ignore[method-assign]
    async with coordinator.peer, working(bench, coordinator=coordinator.peer.address):
        await coordinator.until(lambda status: status.trainer_ready)
        coordinator.orders.put_nowait(Lease(epoch=Epoch(3), ttl_s=60))
        await coordinator.until_state(WorkerState.TRAINING)
        await release(bench)
        assert ended_first == [True]
        await coordinator.until_state(WorkerState.TRAINER)
        await resume(bench)
        await coordinator.until_state(WorkerState.IDLE)
        assert not bench.trainer.suspended


async def test_an_update_while_weights_are_released_is_refused_and_made_once_they_are_back(bench: Bench) -> None:
    async with working(bench):
        await release(bench)
        with pytest.raises(InvalidRequestError, match="resume it before the update"):
            await bench.stage(1, HEAD)
        await resume(bench, "weights")
        await bench.stage(1, HEAD)
        await bench.commit(1)
        assert bench.engine.policy_version == 1
        assert bench.engine.released == set(MEMORY_TAGS) - {"weights"}
        await resume(bench)
        assert await bench.count() == 8


async def test_a_switch_that_waited_for_a_release_is_refused_and_can_be_repeated(bench: Bench) -> None:
    async with working(bench):
        await bench.stage(1, HEAD)
        releasing, gate, released = asyncio.Event(), asyncio.Event(), bench.engine.release_memory

        async def slow(tags: Sequence[str]) -> None:
            releasing.set()
            await gate.wait()
            await released(tags)

        bench.engine.release_memory = slow  # type: ignore[method-assign]
        async with asyncio.TaskGroup() as calls:
            first = calls.create_task(release(bench))
            await releasing.wait()
            second = calls.create_task(refused(bench))
            await asyncio.sleep(0.1)
            assert not second.done()
            gate.set()
            await first
            assert "resume it before the update" in await second
        await resume(bench)
        await bench.commit(1)
        assert bench.engine.policy_version == 1


async def test_a_release_waits_for_a_switch_that_has_begun(bench: Bench) -> None:
    async with working(bench):
        await bench.stage(1, HEAD)
        bench.engine.gate.clear()
        async with asyncio.TaskGroup() as calls:
            calls.create_task(bench.commit(1))
            await bench.engine.loading.wait()
            releasing = calls.create_task(release(bench))
            await asyncio.sleep(0.1)
            assert not bench.engine.released
            bench.engine.gate.set()
            await releasing
        assert bench.engine.policy_version == 1
        assert bench.engine.released == set(MEMORY_TAGS)


async def test_a_drafter_that_is_published_meanwhile_is_loaded_at_once_after_it(
    bench: Bench, coordinator: FakeCoordinator, tmp_path: Path
) -> None:
    drafter = tmp_path / "drafters" / "1"
    drafter.mkdir(parents=True)
    (drafter / "model.safetensors").write_bytes(b"")
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(coordinator.peer)
        settings = {"coordinator": coordinator.peer.address, "drafter_dir": str(tmp_path / "drafters")}
        await stack.enter_async_context(working(bench, **settings))
        await coordinator.until(lambda status: status.trainer_ready)
        await release(bench)
        coordinator.orders.put_nowait(DrafterWish(version=DrafterVersion(1), uri=str(drafter)))
        await coordinator.until(lambda status: "has this worker's devices" in status.problem)
        assert bench.engine.drafter_version == 0
        await resume(bench)
        await eventually(lambda: bench.engine.drafter_version == 1)


async def refused(bench: Bench) -> str:
    with pytest.raises(InvalidRequestError) as caught:
        await bench.commit(1)
    return str(caught.value)
