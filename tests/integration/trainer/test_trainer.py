"""A trainer with its peers: a real cache, a compare-and-swap coordinator, and a worker on its Unix socket."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import grpc
import pytest
import torch

from tests.unit.tlt_trainer.tiny import TinyPolicy, encoded_frames_of, tiny_policy
from tlt_cache.config import CacheConfig
from tlt_cache.main import cache_service
from tlt_common.domain.fleet import DrafterWish, TrainingProgress
from tlt_common.domain.hidden import EncodedFrame
from tlt_common.domain.ids import DrafterVersion
from tlt_common.drafter.meta import META_FILE, meta_of
from tlt_common.errors import InvalidRequestError, StaleEpochError, StaleVersionError, WeightsError
from tlt_common.rpc.channel import connect
from tlt_common.rpc.errors import translated
from tlt_common.rpc.server import Service, serving
from tlt_common.wire import coordinator, hidden
from tlt_common.wire import trainer as wire
from tlt_trainer.config import PublishSettings, TrainerConfig
from tlt_trainer.drafter.files import from_files
from tlt_trainer.process import trainer_service
from tlt_trainer.storage import read_uri

WAIT_S = 60.0
LOOK_S = 0.02


class ScriptedCoordinator(coordinator.Servicer):
    """Manages the fleet's drafter by compare-and-swap; tests may publish in between."""

    def __init__(self) -> None:
        self.history: list[DrafterWish] = []
        self.refused = 0
        self.changed = asyncio.Condition()

    async def publish(self, uri: str) -> None:
        self.history.append(DrafterWish(version=DrafterVersion(len(self.history) + 1), uri=uri))
        async with self.changed:
            self.changed.notify_all()

    async def reached(self, version: int) -> DrafterWish:
        async with asyncio.timeout(WAIT_S), self.changed:
            await self.changed.wait_for(lambda: len(self.history) >= version)
        return self.history[version - 1]

    async def published_by(self, *workers: str) -> None:
        async with asyncio.timeout(WAIT_S), self.changed:
            await self.changed.wait_for(lambda: {Path(wish.uri).parent.name for wish in self.history} >= set(workers))

    async def GetDrafter(self, request: Any, context: Any) -> coordinator.pb.GetDrafterResponse:
        return coordinator.newest_to_pb(self.history[-1] if self.history else None)

    async def PublishDrafter(
        self, request: coordinator.pb.PublishDrafterRequest, context: Any
    ) -> coordinator.pb.PublishDrafterResponse:
        if request.base_version != len(self.history):
            self.refused += 1
            raise StaleVersionError(f"base_version is {request.base_version}; accepted: {len(self.history)}")
        await self.publish(request.uri)
        return coordinator.pb.PublishDrafterResponse(drafter_version=len(self.history))


class Bench:
    """A cache and a coordinator; starts trainers on demand."""

    def __init__(self, policy: TinyPolicy, root: Path, stack: AsyncExitStack) -> None:
        self.policy, self.root, self.stack = policy, root, stack
        self.coordinator = ScriptedCoordinator()  # type: ignore[abstract]
        self.cache_address = self.coordinator_address = ""

    async def open(self) -> None:
        port = await self.stack.enter_async_context(cache_service(CacheConfig(redis="memory")))
        self.cache_address = f"127.0.0.1:{port}"
        service = Service(
            name=coordinator.SERVICE_NAME, add=lambda server: coordinator.add_servicer(self.coordinator, server)
        )
        server = await self.stack.enter_async_context(serving("127.0.0.1:0", service))
        self.coordinator_address = f"127.0.0.1:{server.port}"

    async def put(self, frames: list[EncodedFrame]) -> None:
        async with connect(self.cache_address) as channel:
            requests = map(hidden.put_request, frames)
            await hidden.Stub(channel).Put(requests, timeout=WAIT_S)

    def config(self, name: str = "w0") -> TrainerConfig:
        return TrainerConfig(
            socket=self.root / f"{name}.sock",
            model=self.policy.directory,
            worker_id=name,
            drafter_dir=str(self.root / "drafters"),
            checkpoint_dir=str(self.root / f"checkpoints-{name}"),
            cache=self.cache_address,
            coordinator=self.coordinator_address,
            score_every_s=0.2,
            publish=PublishSettings(every_s=0.2, first_gain=0.6, gain=0.0),
        )

    async def worker(self, name: str = "w0") -> "Worker":
        config = self.config(name)
        await self.stack.enter_async_context(trainer_service(config))
        channel = await self.stack.enter_async_context(connect(f"unix:{config.socket}"))
        return Worker(channel, self.policy)


class Worker:
    """The worker's calls to its trainer."""

    def __init__(self, channel: grpc.aio.Channel, policy: TinyPolicy) -> None:
        self._stub, self._policy = wire.Stub(channel), policy

    async def start(
        self, epoch: int, *, ttl_s: float = 100.0, policy: str | None = None, accept_length: float = 0.0
    ) -> None:
        request = wire.pb.StartRequest(
            epoch=epoch,
            ttl_s=ttl_s,
            policy_uri=f"file://{self._policy.directory}" if policy is None else policy,
            policy_version=1,
            accept_length=accept_length,
        )
        with translated():
            await self._stub.Start(request, timeout=WAIT_S)

    async def preempt(self, epoch: int) -> TrainingProgress:
        with translated():
            response = await self._stub.Preempt(wire.pb.PreemptRequest(epoch=epoch), timeout=WAIT_S)
        return wire.progress_from_pb(response.progress)

    async def progress(self) -> TrainingProgress:
        with translated():
            response = await self._stub.GetProgress(wire.pb.GetProgressRequest(), timeout=WAIT_S)
        return wire.progress_from_pb(response.progress)

    async def has_made(self, steps: int) -> TrainingProgress:
        async with asyncio.timeout(WAIT_S):
            while (progress := await self.progress()).steps < steps:  # noqa: ASYNC110
                await asyncio.sleep(LOOK_S)
        return progress


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> TinyPolicy:
    torch.set_num_threads(1)
    return tiny_policy(tmp_path_factory.mktemp("policy"))


@pytest.fixture
async def bench(policy: TinyPolicy, tmp_path: Path) -> AsyncIterator[Bench]:
    async with AsyncExitStack() as stack:
        made = Bench(policy, tmp_path, stack)
        await made.open()
        yield made


async def test_a_leased_trainer_trains_and_publishes_and_stops_when_told(bench: Bench, policy: TinyPolicy) -> None:
    await bench.put(encoded_frames_of(policy, 200, seed=1))
    worker = await bench.worker()
    await worker.start(1)
    wish = await bench.coordinator.reached(1)
    files = read_uri(wish.uri, mark=META_FILE)
    assert from_files(files, policy.form)
    assert meta_of(files).base == 0
    assert meta_of(files).held_out_top1 >= 0.3  # else it would be slower than no drafter
    await bench.coordinator.reached(2)
    progress = await worker.preempt(1)
    assert not progress.training
    assert progress.held_out_top1 >= 0.3
    assert (await worker.progress()).steps == progress.steps


async def test_it_waits_for_data_and_begins_when_it_comes(bench: Bench, policy: TinyPolicy) -> None:
    worker = await bench.worker()
    await worker.start(1)
    assert not (await worker.progress()).training
    await bench.put(encoded_frames_of(policy, 100, seed=1))
    assert (await worker.has_made(1)).training


async def test_trainers_that_publish_in_turn_are_all_accepted(bench: Bench, policy: TinyPolicy) -> None:
    await bench.put(encoded_frames_of(policy, 200, seed=1))
    one, two = await bench.worker("w0"), await bench.worker("w1")
    await asyncio.gather(one.start(1), two.start(1))
    await bench.coordinator.published_by("w0", "w1")
    await asyncio.gather(one.preempt(1), two.preempt(1))


async def test_a_restart_goes_on_where_it_was(bench: Bench, policy: TinyPolicy) -> None:
    await bench.put(encoded_frames_of(policy, 100, seed=1))
    config = bench.config()
    async with AsyncExitStack() as life:
        await life.enter_async_context(trainer_service(config))
        worker = Worker(await life.enter_async_context(connect(f"unix:{config.socket}")), policy)
        await worker.start(1)
        await worker.has_made(3)
    worker = await bench.worker()
    assert (await worker.progress()).steps >= 3


async def test_without_cache_and_coordinator_it_serves_and_waits(bench: Bench, policy: TinyPolicy) -> None:
    bench.cache_address = bench.coordinator_address = "127.0.0.1:1"
    worker = await bench.worker()
    await worker.start(1)
    assert not (await worker.progress()).training
    await worker.preempt(1)


async def test_old_epochs_bad_requests_and_bad_policies_are_refused_by_name(bench: Bench, tmp_path: Path) -> None:
    worker = await bench.worker()
    await worker.start(3)
    with pytest.raises(StaleEpochError):
        await worker.start(2)
    with pytest.raises(WeightsError, match="embed_tokens"):
        await worker.start(4, policy=str(tmp_path))
    for field, call in (
        ("epoch", worker.start(0)),
        ("ttl_s", worker.start(9, ttl_s=0.0)),
        ("policy_uri", worker.start(9, policy="s3://bucket/x")),
        ("accept_length", worker.start(9, accept_length=float("nan"))),
    ):
        with pytest.raises(InvalidRequestError) as caught:
            await call
        assert caught.value.field == field
