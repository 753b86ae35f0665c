"""The gateway, in front of a worker around a simulated engine."""

import asyncio
from pathlib import Path

from tests.fuzz.host import Announce
from tests.fuzz.service import service_targets
from tests.fuzz.valid_requests import PROMPT, TENSORS, UPDATE
from tlt_bench.simulated_engine import SimulatedEngine
from tlt_common.client import Client
from tlt_common.wire import rollout as wire
from tlt_gateway.config import GatewayConfig
from tlt_gateway.main import live
from tlt_worker.config import TrainerSettings, WorkerConfig
from tlt_worker.main import live as live_worker

MAX_QUEUED = 64
READY_S = 60.0


async def _serve(announce: Announce, directory: Path) -> None:
    loop = asyncio.get_running_loop()
    worker, gateway = loop.create_future(), loop.create_future()
    config = WorkerConfig(model=directory, run_dir=directory / "run", trainer=TrainerSettings(enabled=False))
    async with asyncio.TaskGroup() as parts:
        parts.create_task(live_worker(config, SimulatedEngine(), on_serving=worker.set_result))
        served = GatewayConfig(workers=(await worker,), max_queued=MAX_QUEUED, spool_dir=directory / "spool")
        parts.create_task(live(served, on_serving=gateway.set_result))
        async with Client(await gateway) as client:
            await client.wait_ready(READY_S)
        announce(await gateway)


TARGETS = service_targets(
    "gateway",
    wire.pb.DESCRIPTOR.services_by_name["RolloutService"],
    _serve,
    control="GetServerInfo",
    valid={
        "Generate": (wire.pb.GenerateRequest(prompt=wire.prompt_to_pb(PROMPT)),),
        "GenerateBatch": (wire.pb.GenerateBatchRequest(prompts=[wire.prompt_to_pb(PROMPT)] * 2, samples_per_prompt=2),),
        "Abort": (wire.pb.AbortRequest(request_ids=["r", "s"]),),
        "UpdateWeights": (wire.update_to_pb(UPDATE), wire.update_to_pb(TENSORS)),
        "GetServerInfo": (wire.pb.GetServerInfoRequest(),),
    },
    weight=3,
)
