"""A complete worker over a scripted engine, on real sockets, with its peers becoming reachable and unreachable."""

import asyncio
from contextlib import AsyncExitStack, aclosing
from pathlib import Path

import pytest

from tests.fakes.eventually import eventually
from tests.fakes.gateway_watch import first_report
from tests.fakes.peers import FakeCache, FakeCoordinator, FakeTuner
from tests.fakes.responses import responses
from tests.integration.worker.live_worker import Bench, working
from tlt_common.codec import decode
from tlt_common.domain.arm import ArmWindow
from tlt_common.domain.fleet import Lease, WorkerState
from tlt_common.domain.ids import DrafterVersion, Epoch, RequestId
from tlt_common.domain.prompt import Prompt
from tlt_common.domain.response import FinishReason
from tlt_common.domain.tuner import Posterior
from tlt_common.domain.weights import TensorChunk
from tlt_common.errors import DrainingError, EngineError
from tlt_common.wire import worker as wire
from tlt_worker.config import WorkerConfig
from tlt_worker.main import live

WINDOW = ArmWindow(
    arm="chain-3", group=1, rounds=4, accepted_tokens=12, produced_tokens=16, elapsed_s=0.5, median_reward=32.0
)


async def test_a_worker_alone_serves_rollouts(bench: Bench) -> None:
    async with working(bench):
        chunks = await bench.generate()
        assert [token for chunk in chunks for token in chunk.token_ids] == [2, 3, 4, 5, 6, 7, 8, 9]
        assert chunks[-1].stats is not None
        assert chunks[-1].stats.worker_id == "w7"
        info = (await first_report(bench.channel)).info
        assert (info.worker_id, info.vocab_size, info.device) == ("w7", 100, "scripted")


async def test_hanging_up_aborts_in_the_engine(bench: Bench) -> None:
    async with working(bench):
        prompt = Prompt(request_id=RequestId("r"), token_ids=(1,))
        async with responses(bench.channel) as of_worker:
            async with aclosing(of_worker.generate(prompt).chunks()) as chunks:
                await anext(chunks)
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


async def test_frames_go_to_the_cache_and_capture_is_off_while_it_is_away(bench: Bench, cache: FakeCache) -> None:
    async with AsyncExitStack() as stack:
        async with cache.peer:
            await stack.enter_async_context(working(bench, cache=cache.peer.address))
            await eventually(lambda: bench.engine.captured[-1].enabled)
            await bench.generate()
            async with asyncio.timeout(20):
                frame = await cache.frames.get()
            assert tuple(decode(frame.header, frame.blob).token_ids) == (1, 2, 3, 4, 5, 6, 7, 8, 9)
        await eventually(lambda: not bench.engine.captured[-1].enabled)
        assert await bench.count() == 8
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
        assert await bench.count() == 8
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
            assert await draining  # no request was running
        await coordinator.until_state(WorkerState.IDLE)
        assert bench.trainer.calls[-1] == ("preempt", 3)
        coordinator.orders.put_nowait(Lease(epoch=Epoch(4), ttl_s=60))
        with pytest.raises(DrainingError):
            await bench.generate()
        info = (await first_report(bench.channel)).info
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
        assert await bench.count() == 8


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
