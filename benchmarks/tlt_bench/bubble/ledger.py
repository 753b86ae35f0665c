"""
What the ledger counts as training against what the trainer's device computed.

A real coordinator, and a real worker and spot trainer; the engine is simulated and says how many devices it has. It
gets requests at random, so that leases begin and end all the time. The trainer uses one device, so a worker with tensor
parallelism N may count one N-th of its lent time as training at most.
"""

import asyncio
import random
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

from countdown.coordinator import fleet_at, lend
from countdown.model import CHECKPOINT
from tlt_bench.bubble.together import lent_together
from tlt_bench.engines.bench_engine import log
from tlt_bench.lease.servicer import Drafters
from tlt_bench.lease.taking_back import random_frames, started
from tlt_bench.ratios import Figures
from tlt_bench.result import Result
from tlt_bench.simulated_engine import KeptAlive, SimulatedEngine
from tlt_common.domain.fleet import WorkerState
from tlt_common.telemetry.log import configure
from tlt_coordinator.config import CoordinatorConfig, SpotConfig
from tlt_coordinator.main import Addresses, serve
from tlt_worker.config import WorkerConfig
from tlt_worker.lending.trainer import Trainer
from tlt_worker.lending.trainer_control import TrainerControl
from tlt_worker.worker import Worker

DEVICES = (1, 2, 4)
RUN_S, QUICK_S = 45.0, 12.0
LONGEST_FREE_S, LONGEST_BUSY_S = 3.0, 0.5


def measure(*, quick: bool = False) -> Result:
    """Run the benchmark and return its figures. Progress goes to stderr."""
    configure("error")
    found = Figures()
    for devices in DEVICES:
        asyncio.run(_ledger(found, devices, QUICK_S if quick else RUN_S))
    repeats = lent_together(found, quick=quick)
    return Result(name="bubble", figures=found.figures, spread=found.spread, repeats=repeats, notes=found.notes)


async def _ledger(found: Figures, devices: int, run_s: float) -> None:
    rng = random.Random(devices)
    async with (
        started(random_frames(rng), Drafters()) as trainer,  # type: ignore[abstract]
        _coordinator() as coordinator,
        _worker(trainer.link, coordinator, devices) as worker,
    ):
        ends_s = asyncio.get_running_loop().time() + run_s
        while asyncio.get_running_loop().time() < ends_s:
            await asyncio.sleep(rng.uniform(0.0, LONGEST_FREE_S))
            worker.make_way()
            with worker.activity.request():
                await asyncio.sleep(rng.uniform(0.0, LONGEST_BUSY_S))
        await lend(coordinator, enabled=False)
        await asyncio.sleep(1.0)
        (account,) = (await fleet_at(coordinator)).workers
        computed_s = (await trainer.link.progress()).training_s
    counted_s, all_s = account.seconds[WorkerState.TRAINING], sum(account.seconds.values())
    log(f"  {devices} devices: {counted_s:.2f} s counted, {computed_s:.2f} s computed, {all_s:.1f} device-seconds")
    found.add(f"gpu_seconds_error_{devices}", [counted_s / computed_s - 1.0], "training in the ledger ÷ computed - 1")
    found.add(f"training_share_{devices}", [counted_s / all_s], "training ÷ all device-seconds")


@asynccontextmanager
async def _coordinator() -> AsyncIterator[str]:
    bound: asyncio.Future[Addresses] = asyncio.get_running_loop().create_future()
    config = CoordinatorConfig(http_listen=None, spot=SpotConfig(settle_s=0.1))
    serving = asyncio.create_task(serve(config, on_serving=bound.set_result))
    try:
        yield (await bound).grpc
    finally:
        serving.cancel()
        await asyncio.wait([serving])


@asynccontextmanager
async def _worker(link: TrainerControl, coordinator: str, devices: int) -> AsyncIterator[Worker]:
    engine = SimulatedEngine()
    info = replace(await engine.start(), devices=devices)
    config = WorkerConfig(model=CHECKPOINT, coordinator=coordinator)
    with tempfile.TemporaryDirectory(prefix="tlt-bench-") as scratch:
        trainer = Trainer(link=link, process=KeptAlive())  # type: ignore[arg-type]
        worker = Worker(config, engine, info, Path(scratch), trainer=trainer)
        running = asyncio.create_task(worker.run("127.0.0.1:1"))
        try:
            yield worker
        finally:
            running.cancel()
            await asyncio.wait([running])
