"""
Replicas of the local placement on a Ray with four simulated GPUs: `python -m tests.fakes.ray_gpus REPLICAS GPUS DIR`.

Prints, for each replica, the GPUs visible to its child processes and the detected device. Runs in its own process,
since Ray closes the handles of its processes only at interpreter exit.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import ray

from tlt_worker.engine.device import detect
from tlt_worker.placement.local import FleetSpec
from tlt_worker.placement.local_ray import OBJECT_STORE_BYTES
from tlt_worker.placement.serve import actor_options

GPUS = 4


class Probe:
    """Takes the place of a replica."""

    def seen(self) -> tuple[list[str], str]:
        """Return the visible GPUs, as seen by a child of the replica, and the kind of device."""
        child = [sys.executable, "-c", "import os; print(os.environ['CUDA_VISIBLE_DEVICES'])"]
        visible = subprocess.run(child, capture_output=True, text=True, check=True).stdout.strip()
        return [gpu for gpu in visible.split(",") if gpu], detect().kind


def main(replicas: int, gpus: int, directory: Path) -> None:
    os.environ.pop("CUDA_VISIBLE_DEVICES", None)  # otherwise Ray would assign only those GPUs
    os.environ["RAY_worker_niceness"] = "0"  # noqa: SIM112 - Ray's own name; processes with its default of 15 starve on a busy machine
    ray.init(
        num_cpus=GPUS,
        num_gpus=GPUS,
        include_dashboard=False,
        log_to_driver=False,
        object_store_memory=OBJECT_STORE_BYTES,
    )
    spec = FleetSpec(worker={}, replicas=replicas, gpus_per_worker=gpus, directory=directory, logs=directory)
    probe: Any = ray.remote(Probe).options(**actor_options(spec))
    placed = [probe.remote() for _ in range(replicas)]
    sys.stdout.write(json.dumps(ray.get([replica.seen.remote() for replica in placed])) + "\n")
    ray.shutdown()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
