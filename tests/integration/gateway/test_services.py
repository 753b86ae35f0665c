"""The gateway with the real worker and coordinator services, over scripted engines and trainers."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import torch

from tests.fakes.engine import FakeEngine
from tests.fakes.eventually import eventually
from tests.fakes.trainer import FakeTrainer
from tests.integration.gateway.conftest import Start
from tlt_common.client import FinishReason, SamplingParams
from tlt_coordinator.config import CoordinatorConfig, LendingPolicy
from tlt_coordinator.main import Addresses, serve
from tlt_worker.config import WorkerConfig
from tlt_worker.lending.trainer import Trainer
from tlt_worker.main import live

EIGHT = SamplingParams(max_new_tokens=8)


@asynccontextmanager
async def coordinating() -> AsyncIterator[str]:
    config = CoordinatorConfig(http_listen=None, spot=LendingPolicy(settle_s=0.0))
    known: asyncio.Future[Addresses] = asyncio.get_running_loop().create_future()
    async with asyncio.TaskGroup() as group:
        serving = group.create_task(serve(config, on_serving=known.set_result))
        yield (await known).grpc
        serving.cancel()


@asynccontextmanager
async def working(
    name: str, engine: FakeEngine, trainer: FakeTrainer, coordinator: str, run_dir: Path
) -> AsyncIterator[None]:
    @asynccontextmanager
    async def fake_trainer(_config: WorkerConfig, _directory: Path) -> AsyncIterator[Trainer]:
        yield Trainer(link=trainer, process=trainer)

    config = WorkerConfig(model=Path("/model"), worker_id=name, coordinator=coordinator, run_dir=run_dir)
    known: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    async with asyncio.TaskGroup() as group:
        serving = group.create_task(live(config, engine, trainer=fake_trainer, on_serving=known.set_result))
        await known
        yield
        serving.cancel()


async def test_rollouts_updates_and_lending_go_together(start: Start, tmp_path: Path) -> None:
    engines = [FakeEngine(token_s=0.001) for _ in range(2)]
    trainers = [FakeTrainer() for _ in engines]
    async with AsyncExitStack() as stack:
        coordinator = await stack.enter_async_context(coordinating())
        for index, (engine, trainer) in enumerate(zip(engines, trainers, strict=True)):
            run_dir = tmp_path / str(index)
            await stack.enter_async_context(working(f"w{index}", engine, trainer, coordinator, run_dir))
        client = await stack.enter_async_context(start(coordinator=coordinator, workers=2))
        await eventually(lambda: all(trainer.calls for trainer in trainers))

        responses = await client.batch([[1], [2]], 8, EIGHT)
        assert all(response.finish_reason is FinishReason.LENGTH for samples in responses for response in samples)
        assert all("preempt" in {call for call, _ in trainer.calls} for trainer in trainers)

        result = await client.publish_weights(1, {"w": torch.ones(4)})
        assert result.workers == 2
        assert [engine.policy_version for engine in engines] == [1, 1]
        after = await client.generate([1], EIGHT, policy_version=1)
        assert set(after.policy_versions) == {1}
