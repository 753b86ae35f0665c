"""A live worker around a scripted engine and trainer, for tests."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import grpc

from tests.fakes.engine import FakeEngine
from tests.fakes.responses import responses
from tests.fakes.trainer import FakeTrainer
from tlt_common.domain.ids import PolicyVersion, RequestId
from tlt_common.domain.prompt import Prompt
from tlt_common.domain.response import TokenChunk
from tlt_common.domain.weights import ReleaseId, StageOrder, TensorChunk
from tlt_common.rpc.channel import connect
from tlt_common.rpc.drain import Drain
from tlt_common.rpc.errors import translated
from tlt_common.wire import worker as wire
from tlt_worker.config import WorkerConfig
from tlt_worker.lending.trainer import Trainer
from tlt_worker.main import draining, live


@dataclass
class Bench:
    """A worker, its engine and trainer, and a channel to it."""

    run_dir: Path
    engine: FakeEngine = field(default_factory=FakeEngine)
    trainer: FakeTrainer = field(default_factory=FakeTrainer)
    channel: grpc.aio.Channel = field(init=False)
    address: str = field(init=False)
    drain: Drain = field(default_factory=draining)

    async def generate(self, request_id: str = "r", token: int = 1) -> list[TokenChunk]:
        prompt = Prompt(request_id=RequestId(request_id), token_ids=(token,))
        async with responses(self.channel) as of_worker:
            return [chunk async for chunk in of_worker.generate(prompt).chunks()]

    async def count(self) -> int:
        """Return the number of tokens of a response."""
        return sum(len(chunk.token_ids) for chunk in await self.generate())

    async def stage(self, version: int, *parts: TensorChunk, uri: str | None = None) -> int:
        async def messages() -> AsyncIterator[wire.pb.StageWeightsRequest]:
            yield wire.stage_to_pb(StageOrder(release=ReleaseId(version=PolicyVersion(version)), uri=uri))
            for part in parts:
                yield wire.stage_to_pb(part)

        with translated():
            return (await wire.Stub(self.channel).StageWeights(messages())).staged_bytes

    async def commit(self, version: int) -> None:
        with translated():
            await wire.Stub(self.channel).CommitWeights(wire.pb.CommitWeightsRequest(policy_version=version))

    @asynccontextmanager
    async def fake_trainer(self, _config: WorkerConfig, _run_dir: Path) -> AsyncIterator[Trainer]:
        yield Trainer(link=self.trainer, process=self.trainer)


async def _lived(config: WorkerConfig, bench: Bench, serving: asyncio.Future[str]) -> None:
    await live(config, bench.engine, trainer=bench.fake_trainer, drain=bench.drain, on_serving=serving.set_result)


@asynccontextmanager
async def working(bench: Bench, **settings: object) -> AsyncIterator[Bench]:
    config = WorkerConfig.model_validate(
        {"model": Path("/model"), "worker_id": "w7", "run_dir": bench.run_dir} | settings
    )
    serving: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    worker = asyncio.ensure_future(_lived(config, bench, serving))
    try:
        bench.address = await serving
        async with connect(bench.address) as bench.channel:
            yield bench
    finally:
        worker.cancel()
        await asyncio.wait({worker})
        assert bench.engine.closed
