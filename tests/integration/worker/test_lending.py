"""A worker lends its device to its trainer and reclaims it."""

import asyncio
from contextlib import AsyncExitStack

from tests.fakes.engine import FakeEngine
from tests.fakes.eventually import eventually
from tests.fakes.peers import FakeCoordinator
from tests.integration.worker.live_worker import Bench, working
from tlt_common.domain.fleet import Lease, Revocation, WorkerState
from tlt_common.domain.ids import Epoch, RequestId
from tlt_common.domain.prompt import Prompt
from tlt_common.domain.weights import TensorChunk
from tlt_common.wire import worker as wire


async def test_an_idle_device_is_lent_and_a_request_takes_it_back_without_asking(
    bench: Bench, coordinator: FakeCoordinator
) -> None:
    bench.trainer.preempt_s = 0.03
    async with coordinator.peer, working(bench, coordinator=coordinator.peer.address):
        await coordinator.until(lambda status: status.trainer_ready)
        assert coordinator.hellos[0].worker_id == "w7"
        coordinator.orders.put_nowait(Lease(epoch=Epoch(3), ttl_s=60))
        await coordinator.until_state(WorkerState.TRAINING)
        async with asyncio.TaskGroup() as callers:
            caller = callers.create_task(bench.generate())
            status = await coordinator.until_state(WorkerState.SWITCHING)
            assert (status.epoch, status.running) == (0, 1)
            await coordinator.until_state(WorkerState.ROLLOUT)
            await caller
        await coordinator.until_state(WorkerState.IDLE)
        assert bench.trainer.calls == [("start", 3), ("preempt", 3)]


async def test_a_lent_worker_generates_ahead_until_a_request_arrives_and_the_ledger_counts_it_as_training(
    bench: Bench, coordinator: FakeCoordinator
) -> None:
    def stop_at_none(prompt: Prompt) -> tuple[int, ...]:
        return tuple(range(8 if prompt.request_id == "r" else 10_000))

    bench.engine = FakeEngine(answer=stop_at_none)
    async with coordinator.peer, working(bench, coordinator=coordinator.peer.address):
        stub = wire.Stub(bench.channel)
        announced = [Prompt(request_id=RequestId(""), token_ids=(each,)) for each in range(6)]
        await stub.Announce(wire.announced_to_pb("", announced))
        await coordinator.until(lambda status: status.trainer_ready)
        assert bench.engine.running == frozenset()
        coordinator.orders.put_nowait(Lease(epoch=Epoch(3), ttl_s=60))
        await eventually(lambda: bool(bench.engine.running))
        status = await coordinator.until_state(WorkerState.TRAINING)
        assert (status.running, status.produced_tokens) == (0, 0)
        assert await bench.count() == 8
        status = await coordinator.until_state(WorkerState.IDLE)
        assert status.produced_tokens == 8  # of the caller's response alone
        assert bench.engine.running == frozenset()


async def test_the_trainer_is_given_the_weights_that_are_served(bench: Bench, coordinator: FakeCoordinator) -> None:
    async with coordinator.peer, working(bench, coordinator=coordinator.peer.address):
        await bench.stage(2, TensorChunk(name="head", dtype="BF16", shape=(2,), offset_bytes=0, data=bytes(4)))
        await bench.commit(2)
        await coordinator.until(lambda status: status.trainer_ready and status.policy_version == 2)
        coordinator.orders.put_nowait(Lease(epoch=Epoch(1), ttl_s=60))
        await coordinator.until_state(WorkerState.TRAINING)
        assert bench.trainer.policies == [(bench.engine.loaded[-1], 2)]
        coordinator.orders.put_nowait(Revocation(epoch=Epoch(1)))
        await coordinator.until_state(WorkerState.IDLE)


async def test_a_lease_ends_by_itself_when_the_coordinator_is_gone_and_the_worker_returns_to_it(
    bench: Bench, coordinator: FakeCoordinator
) -> None:
    async with AsyncExitStack() as stack:
        async with coordinator.peer:
            await stack.enter_async_context(working(bench, coordinator=coordinator.peer.address))
            await coordinator.until(lambda status: status.trainer_ready)
            coordinator.orders.put_nowait(Lease(epoch=Epoch(1), ttl_s=0.5))
            await coordinator.until_state(WorkerState.TRAINING)
        await eventually(lambda: ("preempt", Epoch(1)) in bench.trainer.calls)
        assert await bench.count() == 8
        async with coordinator.peer:
            await eventually(lambda: len(coordinator.hellos) > 1)
            await coordinator.until_state(WorkerState.IDLE)
