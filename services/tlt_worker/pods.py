"""Several workers on KubeRay, before Ray places them: one pod each. Imports no ray."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import Field

from tlt_common.config.base import Frozen
from tlt_common.config.loader import resolve
from tlt_worker.config import WorkerConfig

SLOT = "tlt-worker"
"""Ray resource of which each worker pod has one and the head none, so that a pod holds one worker."""
CONTAINER_OUTPUT = Path("/proc/1/fd/1")
"""Standard output of the pod's first process: what `kubectl logs` shows."""


class PodsSpec(Frozen):
    """What the chart hands to Ray Serve. A change rolls the workers inside their pods, one after the other."""

    worker: dict[str, Any]
    """Settings of `WorkerConfig`. The environment of a pod adds what tells pods apart: its name and address."""
    trainer: dict[str, str | int | float | bool] = Field(default_factory=dict)
    """Settings of the spot trainers."""
    replicas: int = Field(1, ge=1)
    """Workers."""
    gpus_per_replica: int = Field(1, ge=0)
    """GPUs of a worker's pod; 0 runs engines on the CPU."""

    @property
    def drain_s(self) -> float:
        """Longest time that running requests of a worker that leaves may take."""
        return float(self.worker.get("drain_s", 0.0))

    @property
    def bundle(self) -> dict[str, float]:
        """What a worker takes of its pod. All GPUs in one bundle: an engine's ranks are on one node."""
        return {"CPU": 1, SLOT: 1, **({"GPU": self.gpus_per_replica} if self.gpus_per_replica else {})}

    def config(self, rank: int, environment: Mapping[str, str] = os.environ) -> WorkerConfig:
        """
        Configure the replica of that rank, in its pod.

        Its name goes with the rank, which a replacement inherits, so that the trainer finds its checkpoint.

        Raises:
            ConfigError: A setting is unknown or out of range.
        """
        trainer = {**self.worker.get("trainer", {}), "settings": self.trainer}
        values = {"worker_id": f"worker-{rank}", **self.worker, "trainer": trainer}
        return resolve(WorkerConfig, "worker", values, environment=environment)

    def here(self, rank: int) -> WorkerConfig:
        """Configure the replica of that rank in this pod."""
        return self.config(rank)

    def log_file(self, rank: int) -> Path | None:
        """Where the replica of that rank writes; None where that cannot be had: to Ray's own log files."""
        del rank
        return CONTAINER_OUTPUT if os.access(CONTAINER_OUTPUT, os.W_OK) else None
