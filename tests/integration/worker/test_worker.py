"""A whole worker over a scripted engine, on real sockets, with the services around it coming and going."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import grpc
import pytest

from tests.fakes.engine import FakeEngine
from tests.fakes.peers import FakeCache, FakeCoordinator, FakeTuner
from tests.fakes.trainer import FakeTrainer
from tlt_common.domain.fleet import DrafterWish, Lease, Revocation, WorkerState, WorkerStatus
from tlt_common.domain.ids import DrafterVersion, Epoch, PolicyVersion, RequestId
from tlt_common.domain.rollout import FinishReason, Prompt, TokenChunk
from tlt_common.domain.strategy import ArmWindow
from tlt_common.domain.tuner import Posterior
from tlt_common.domain.weights import TensorChunk, WeightsUpdate
from tlt_common.errors import DrainingError, EngineError, InvalidRequestError, WeightsError
from tlt_common.rpc.channel import connect
from tlt_common.rpc.drain import Drain
from tlt_common.rpc.errors import translated
from tlt_common.wire import worker as wire
from tlt_worker.beside import Trainer
from tlt_worker.config import WorkerConfig
from tlt_worker.main import draining, live

WINDOW = ArmWindow(
    arm="chain-3", group=1, rounds=4, accepted_tokens=12, produced_tokens=16, elapsed_s=0.5, median_reward=32.0
)


@dataclass
class Bench:
    """A worker, its engine and trainer, and a channel to it."""

    run_dir: Path
    engine: FakeEngine = field(default_factory=FakeEngine)
    trainer: FakeTrainer = field(default_factory=FakeTrainer)
    channel: grpc.aio.Channel = field(init=False)
    drain: Drain = field(default_factory=draining)

    async def generate(self, request_id: str = "r", token: int = 1) -> list[TokenChunk]:
        prompt = Prompt(request_id=RequestId(request_id), token_ids=(token,))
        call = wire.Stub(self.channel).Generate(wire.pb.GenerateRequest(prompt=wire.prompt_to_pb(prompt)))
        with translated():
            return [wire.chunk_from_pb(message.chunk) async for message in call]

    async def stage(self, version: int, *parts: TensorChunk, uri: str | None = None) -> int:
        async def messages() -> AsyncIterator[wire.pb.StageWeightsRequest]:
            yield wire.stage_to_pb(WeightsUpdate(version=PolicyVersion(version), uri=uri))
            for part in parts:
                yield wire.stage_to_pb(part)

        with translated():
            return (await wire.Stub(self.channel).StageWeights(messages())).staged_bytes

    async def commit(self, version: int) -> None:
        with translated():
            await wire.Stub(self.channel).CommitWeights(wire.pb.CommitWeightsRequest(policy_version=version))

    @asynccontextmanager
    async def beside(self, _config: WorkerConfig, _run_dir: Path) -> AsyncIterator[Trainer]:
        yield Trainer(link=self.trainer, process=self.trainer)


async def _lived(config: WorkerConfig, bench: Bench, serving: asyncio.Future[str]) -> None:
    await live(config, bench.engine, trainer=bench.beside, drain=bench.drain, on_serving=serving.set_result)


@asynccontextmanager
async def working(bench: Bench, **settings: str) -> AsyncIterator[Bench]:
    config = WorkerConfig(model=Path("/model"), worker_id="w7", run_dir=bench.run_dir, **settings)
    serving: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    worker = asyncio.ensure_future(_lived(config, bench, serving))
    try:
        async with connect(await serving) as bench.channel:
            yield bench
    finally:
        worker.cancel()
        await asyncio.wait({worker})
        assert bench.engine.closed


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def has_drafter(version: int, status: WorkerStatus) -> bool:
    return status.drafter_version == version


async def eventually(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not holds():  # noqa: ASYNC110 - what is waited for lies behind sockets
            await asyncio.sleep(0.01)


async def test_a_worker_alone_serves_rollouts(bench: Bench) -> None:
    async with working(bench):
        chunks = await bench.generate()
        assert [token for chunk in chunks for token in chunk.token_ids] == [2, 3, 4, 5, 6, 7, 8, 9]
        assert chunks[-1].stats is not None
        assert chunks[-1].stats.worker_id == "w7"
        info = wire.info_from_pb(await wire.Stub(bench.channel).GetWorkerInfo(wire.pb.GetWorkerInfoRequest()))
        assert (info.worker_id, info.vocab_size, info.device) == ("w7", 100, "scripted")


async def test_bad_prompts_name_their_field(bench: Bench) -> None:
    async with working(bench):
        with pytest.raises(InvalidRequestError) as refusal:
            await bench.generate(token=100)
        assert refusal.value.field == "prompt.token_ids"
        assert await bench.generate()


async def test_hanging_up_aborts_in_the_engine(bench: Bench) -> None:
    async with working(bench):
        prompt = wire.prompt_to_pb(Prompt(request_id=RequestId("r"), token_ids=(1,)))
        call = wire.Stub(bench.channel).Generate(wire.pb.GenerateRequest(prompt=prompt))
        await anext(aiter(call))
        call.cancel()
        await eventually(lambda: not bench.engine.running)
        assert bench.engine.aborted in ([], ["r"])  # the cancellation may reach the engine's iterator first


async def test_an_abort_ends_the_stream_and_says_so(bench: Bench) -> None:
    async with working(bench), asyncio.TaskGroup() as callers:
        caller = callers.create_task(bench.generate())
        await eventually(lambda: bool(bench.engine.running))
        request = wire.pb.AbortRequest(request_ids=["r", "unknown"])
        assert (await wire.Stub(bench.channel).Abort(request)).aborted_count == 1
        assert (await caller)[-1].finish_reason is FinishReason.ABORT


async def test_streamed_weights_are_served_while_requests_run(bench: Bench) -> None:
    async with working(bench), asyncio.TaskGroup() as callers:
        caller = callers.create_task(bench.generate())
        await eventually(lambda: bool(bench.engine.running))
        halves = [
            TensorChunk(name="head", dtype="BF16", shape=(2, 2), offset_bytes=offset, data=bytes(4))
            for offset in (0, 4)
        ]
        assert await bench.stage(5, *halves) > 8
        await bench.commit(5)
        versions = {version for chunk in await caller for version in chunk.policy_versions}
        assert versions == {0, 5}


async def test_weights_that_do_not_fit_are_refused_and_nothing_changes(bench: Bench) -> None:
    async with working(bench):
        short = TensorChunk(name="head", dtype="BF16", shape=(2, 2), offset_bytes=0, data=bytes(4))
        with pytest.raises(WeightsError, match="lacks its last 4 bytes"):
            await bench.stage(1, short)
        with pytest.raises(WeightsError, match="not a directory"):
            await bench.stage(1, uri="/nowhere")
        assert (await bench.generate())[-1].policy_versions == (0,)


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
        assert len(await bench.generate()) == 8
        async with coordinator.peer:
            await eventually(lambda: len(coordinator.hellos) > 1)
            await coordinator.until_state(WorkerState.IDLE)


async def test_a_drafter_wish_is_loaded_and_one_that_fails_keeps_the_drafter(
    bench: Bench, coordinator: FakeCoordinator, tmp_path: Path
) -> None:
    for name in ("good", "bad", "better"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "model.safetensors").write_bytes(b"x")
    bench.engine.bad_directories.add(tmp_path / "bad")
    async with coordinator.peer, working(bench, coordinator=coordinator.peer.address):
        for version, name in ((1, "good"), (2, "bad"), (3, "better")):
            coordinator.orders.put_nowait(DrafterWish(version=DrafterVersion(version), uri=str(tmp_path / name)))
            if name != "bad":
                await coordinator.until(partial(has_drafter, version))
        assert [path.name for path in bench.engine.loaded[-1:]] == ["better"]


async def test_frames_go_to_the_cache_and_capture_is_off_while_it_is_away(bench: Bench, cache: FakeCache) -> None:
    async with AsyncExitStack() as stack:
        async with cache.peer:
            await stack.enter_async_context(working(bench, cache=cache.peer.address))
            await eventually(lambda: bench.engine.captured[-1].enabled)
            await bench.generate()
            async with asyncio.timeout(20):
                frame = await cache.frames.get()
            assert frame.token_ids == (1, 2, 3, 4, 5, 6, 7, 8, 9)
        await eventually(lambda: not bench.engine.captured[-1].enabled)
        assert len(await bench.generate()) == 8
        async with cache.peer:
            await eventually(lambda: bench.engine.captured[-1].enabled)
            await bench.generate()
            async with asyncio.timeout(20):
                await cache.frames.get()


async def test_rounds_go_to_the_tuner_and_the_posterior_comes_back_over_its_restart(
    bench: Bench, tuner: FakeTuner
) -> None:
    posterior = Posterior(drafter_version=DrafterVersion(0), arms=(WINDOW,))
    async with AsyncExitStack() as stack:
        async with tuner.peer:
            await stack.enter_async_context(working(bench, tuner=tuner.peer.address))
            bench.engine.report(WINDOW)
            async with asyncio.timeout(20):
                assert await tuner.windows.get() == (WINDOW,)
            tuner.posteriors.put_nowait(posterior)
            await eventually(lambda: bench.engine.posteriors == [posterior])
        bench.engine.report(WINDOW)
        assert len(await bench.generate()) == 8
        async with tuner.peer:
            tuner.posteriors.put_nowait(posterior)
            await eventually(lambda: len(bench.engine.posteriors) == 2)
            bench.engine.report(WINDOW)
            async with asyncio.timeout(20):
                await tuner.windows.get()


async def test_a_worker_that_drains_finishes_what_runs_and_takes_nothing_new(
    bench: Bench, coordinator: FakeCoordinator
) -> None:
    async with coordinator.peer, working(bench, coordinator=coordinator.peer.address):
        await coordinator.until(lambda status: status.trainer_ready)
        coordinator.orders.put_nowait(Lease(epoch=Epoch(3), ttl_s=60))
        await coordinator.until_state(WorkerState.TRAINING)
        async with asyncio.TaskGroup() as callers:
            draining = callers.create_task(bench.drain.complete(60))
            await coordinator.until(lambda status: status.epoch == 0 and not status.trainer_ready)
            assert await draining  # nothing ran
        await coordinator.until_state(WorkerState.IDLE)
        assert bench.trainer.calls[-1] == ("preempt", 3)
        coordinator.orders.put_nowait(Lease(epoch=Epoch(4), ttl_s=60))
        with pytest.raises(DrainingError):
            await bench.generate()
        info = wire.info_from_pb(await wire.Stub(bench.channel).GetWorkerInfo(wire.pb.GetWorkerInfoRequest()))
        assert info.draining
        assert ("start", 4) not in bench.trainer.calls


async def test_what_runs_while_a_worker_drains_gets_new_weights_and_its_last_token(bench: Bench) -> None:
    async with working(bench), asyncio.TaskGroup() as tasks:
        caller = tasks.create_task(bench.generate())
        await eventually(lambda: bool(bench.engine.running))
        draining = tasks.create_task(bench.drain.complete(60))
        await bench.stage(5, TensorChunk(name="head", dtype="BF16", shape=(2,), offset_bytes=0, data=bytes(4)))
        await bench.commit(5)
        tokens = [token for chunk in await caller for token in chunk.token_ids]
        assert len(tokens) == 8
        assert await draining


async def test_a_worker_of_which_every_peer_is_missing_serves_rollouts(bench: Bench) -> None:
    nobody = "127.0.0.1:1"
    async with working(bench, coordinator=nobody, cache=nobody, tuner=nobody):
        assert len(await bench.generate()) == 8


async def test_a_dead_engine_ends_the_worker_with_a_clear_error(bench: Bench) -> None:
    serving: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    config = WorkerConfig(model=Path("/model"), run_dir=bench.run_dir)
    worker = asyncio.ensure_future(live(config, bench.engine, on_serving=serving.set_result))
    await serving
    bench.engine.die("scheduler exited with -9")
    with pytest.raises(ExceptionGroup) as group:
        await worker
    assert group.group_contains(EngineError, match="scheduler exited with -9")
    assert bench.engine.closed
