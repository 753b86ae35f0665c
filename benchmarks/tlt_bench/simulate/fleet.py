"""A coordinator, a gateway and workers with scripted engines, in one process."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from countdown.model import CHECKPOINT
from tlt_bench.simulate.scripted import PacedEngine, ScriptedTrainer
from tlt_bench.simulated_engine import KeptAlive
from tlt_coordinator.config import CoordinatorConfig, LendingPolicy
from tlt_coordinator.main import Addresses
from tlt_coordinator.main import serve as serve_coordinator
from tlt_gateway.config import GatewayConfig
from tlt_gateway.main import live as serve_gateway
from tlt_worker.config import WorkerConfig
from tlt_worker.lending.trainer import Trainer
from tlt_worker.main import live as serve_worker

WORKERS = 4
SPOT = LendingPolicy(settle_s=0.2)


@asynccontextmanager
async def fleet(scratch: Path) -> AsyncIterator[tuple[str, str]]:
    """Run the services; yield the addresses of the gateway and the coordinator."""
    async with AsyncExitStack() as parts:

        async def address_of(serve: Callable[[Callable[[Any], None]], Any]) -> Any:
            bound: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
            serving = asyncio.create_task(serve(bound.set_result))
            parts.push_async_callback(_ended, serving)
            return await asyncio.wait_for(bound, 60.0)

        coordinator: Addresses = await address_of(
            lambda bound: serve_coordinator(CoordinatorConfig(http_listen=None, spot=SPOT), on_serving=bound)
        )
        workers = [
            await address_of(lambda bound, number=number: _worker(scratch, number, coordinator.grpc, bound))  # type: ignore[misc]
            for number in range(WORKERS)
        ]
        config = GatewayConfig(workers=tuple(workers), coordinator=coordinator.grpc, spool_dir=scratch)
        gateway = await address_of(lambda bound: serve_gateway(config, on_serving=bound))
        yield gateway, coordinator.grpc


async def _worker(scratch: Path, number: int, coordinator: str, on_serving: Callable[[str], None]) -> None:
    run_dir = scratch / f"worker-{number}"
    run_dir.mkdir()
    config = WorkerConfig(model=CHECKPOINT, worker_id=f"w{number:05}", coordinator=coordinator, run_dir=run_dir)
    await serve_worker(config, PacedEngine(), trainer=_trainer, on_serving=on_serving)


@asynccontextmanager
async def _trainer(_config: WorkerConfig, _run_dir: Path) -> AsyncIterator[Trainer]:
    yield Trainer(link=ScriptedTrainer(), process=KeptAlive())  # type: ignore[arg-type]


async def _ended(serving: asyncio.Task[None]) -> None:
    serving.cancel()
    await asyncio.wait([serving])
