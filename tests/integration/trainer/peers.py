"""The peers of a spot trainer: a real cache, a compare-and-swap coordinator, and a worker on its Unix socket."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import grpc

from tlt_cache.config import CacheConfig
from tlt_cache.main import cache_service
from tlt_common.domain.fleet import DrafterWish, TrainingProgress
from tlt_common.domain.hidden import EncodedFrame
from tlt_common.domain.ids import DrafterVersion
from tlt_common.errors import StaleVersionError
from tlt_common.rpc.channel import connect
from tlt_common.rpc.errors import translated
from tlt_common.rpc.server import Service, serving
from tlt_common.wire import coordinator, hidden
from tlt_common.wire import trainer as wire
from tlt_trainer.config import PublishSettings, TrainerConfig
from tlt_trainer.process import trainer_service

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
    """A cache and a coordinator; starts trainers of a model on demand. `settings` are those of all trainers."""

    def __init__(self, model: Path, root: Path, stack: AsyncExitStack, **settings: Any) -> None:
        self.model, self.root, self.stack, self.settings = model, root, stack, settings
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
            model=self.model,
            worker_id=name,
            drafter_dir=str(self.root / "drafters"),
            checkpoint_dir=str(self.root / f"checkpoints-{name}"),
            cache=self.cache_address,
            coordinator=self.coordinator_address,
            publish=PublishSettings(every_tokens=1024, first_gain=0.6, gain=0.0),
            **self.settings,
        )

    async def worker(self, name: str = "w0") -> "Worker":
        config = self.config(name)
        await self.stack.enter_async_context(trainer_service(config))
        channel = await self.stack.enter_async_context(connect(f"unix:{config.socket}"))
        return Worker(channel, self.model)


class Worker:
    """The worker's calls to its trainer."""

    def __init__(self, channel: grpc.aio.Channel, model: Path) -> None:
        self._stub, self._model = wire.Stub(channel), model

    async def start(
        self, epoch: int, *, ttl_s: float = 100.0, policy: str | None = None, accept_length: float = 0.0
    ) -> None:
        request = wire.pb.StartRequest(
            epoch=epoch,
            ttl_s=ttl_s,
            policy_uri=f"file://{self._model}" if policy is None else policy,
            policy_version=1,
            accept_length=accept_length,
        )
        with translated():
            await self._stub.Start(request, timeout=WAIT_S)

    async def prepare(self, policy: str, version: int) -> None:
        request = wire.pb.PrepareRequest(policy_uri=policy, policy_version=version)
        with translated():
            await self._stub.Prepare(request, timeout=WAIT_S)

    async def preempt(self, epoch: int) -> TrainingProgress:
        with translated():
            response = await self._stub.Preempt(wire.pb.PreemptRequest(epoch=epoch), timeout=WAIT_S)
        return wire.progress_from_pb(response.progress)

    async def progress(self) -> TrainingProgress:
        with translated():
            response = await self._stub.GetProgress(wire.pb.GetProgressRequest(), timeout=WAIT_S)
        return wire.progress_from_pb(response.progress)

    async def has_made(self, steps: int, within_s: float = WAIT_S) -> TrainingProgress:
        async with asyncio.timeout(within_s):
            while (progress := await self.progress()).steps < steps:  # noqa: ASYNC110
                await asyncio.sleep(LOOK_S)
        return progress
