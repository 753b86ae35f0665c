"""
The workers of `tlt up` without their engines: `python -m tests.fakes.gpu_probe UP.json`.

Decides and starts Ray as `tlt up` does, and prints which GPUs each replica and its spot trainer find. Runs in its own
process, since Ray closes the handles of its processes only at interpreter exit.
"""

import asyncio
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import ray

from tlt_local.configuration.config import check
from tlt_local.configuration.file import stack_config
from tlt_local.fleet import fleet_of
from tlt_local.supervision.home import ENVIRONMENT, Home
from tlt_worker.engine.device import detect, gpu_memory
from tlt_worker.lending.trainer_process import TrainerProcess
from tlt_worker.placement.gpus import claim
from tlt_worker.placement.local import FleetSpec
from tlt_worker.placement.local_ray import start_ray
from tlt_worker.placement.serve import actor_options

TRAINER = """
import json, os, sys
from tlt_worker.engine.device import gpu_memory
open(sys.argv[1], "w").write(json.dumps({"visible": os.environ["CUDA_VISIBLE_DEVICES"], "memory": gpu_memory()}))
"""


class Probe:
    """Takes the place of a replica."""

    async def seen(self, spec: FleetSpec, file: Path) -> dict[str, Any]:
        """Return what the replica finds, and what a process finds that it starts as it starts its trainer."""
        claim(spec.gpus)
        ended = asyncio.Event()
        trainer = TrainerProcess([sys.executable, "-c", TRAINER, str(file)])
        running = asyncio.create_task(trainer.run(on_exit=ended.set))
        await ended.wait()
        running.cancel()
        return {
            "visible": os.environ["CUDA_VISIBLE_DEVICES"],
            "memory": gpu_memory(),
            "device": detect().kind,
            "ranks": spec.here(0).engine.tensor_parallel,
            "trainer": json.loads(await asyncio.to_thread(file.read_text)),
        }


def main(up: Path) -> None:
    config = stack_config(up, {}, ())
    check(config)
    os.environ.update(ENVIRONMENT)
    with tempfile.TemporaryDirectory(prefix="tlt-") as private:
        home = Home(directory=Path(private), data=Path(private), token="", leave=lambda: None)
        spec = fleet_of(config, home, {"coordinator": "127.0.0.1:1"})
        start_ray(spec)
        probe: Any = ray.remote(Probe).options(**actor_options(spec))
        placed = [probe.remote() for _ in range(spec.replicas)]
        calls = [replica.seen.remote(spec, home.directory / f"{rank}.json") for rank, replica in enumerate(placed)]
        sys.stdout.write(json.dumps(ray.get(calls)) + "\n")
        ray.shutdown()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
