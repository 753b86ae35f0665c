"""The specification of several workers on KubeRay, one per pod. Does not import ray."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import Field

from tlt_common.config.base import Frozen
from tlt_common.config.loader import resolve
from tlt_worker.config import WorkerConfig

SLOT = "tlt-worker"
"""Custom Ray resource: one per worker pod and none on the head, so that each pod runs one worker."""
CONTAINER_OUTPUT = Path("/proc/1/fd/1")
"""Standard output of the pod's first process, as shown by `kubectl logs`."""


class PodsSpec(Frozen):
    """Arguments that the chart passes to Ray Serve. A change restarts the workers inside their pods, one by one."""

    worker: dict[str, Any]
    """Settings of `WorkerConfig`. The pod's environment adds the pod's name and address."""
    trainer: dict[str, str | int | float | bool] = Field(default_factory=dict)
    """Settings of the spot trainers."""
    replicas: int = Field(1, ge=1)
    """Number of workers."""
    gpus_per_replica: int = Field(1, ge=0)
    """GPUs per worker pod; 0 runs engines on the CPU."""

    @property
    def gpus(self) -> int:
        """GPUs that Ray assigns to each replica."""
        return self.gpus_per_replica

    @property
    def drain_s(self) -> float:
        """Grace period in seconds for running requests when a worker shuts down."""
        return float(self.worker.get("drain_s", 0.0))

    @property
    def bundle(self) -> dict[str, float]:
        """Resources of one worker. All GPUs are in one bundle, since an engine's ranks run on one node."""
        return {"CPU": 1, SLOT: 1, **({"GPU": self.gpus_per_replica} if self.gpus_per_replica else {})}

    def config(self, rank: int, environment: Mapping[str, str] = os.environ) -> WorkerConfig:
        """
        Return the configuration of the replica with this rank, in its pod.

        The worker's id follows the rank, which a replacement inherits, so that the trainer finds its checkpoint.

        Raises:
            ConfigError: A setting is unknown or out of range.
        """
        trainer = {**self.worker.get("trainer", {}), "settings": self.trainer}
        values = {"worker_id": f"worker-{rank}", **self.worker, "trainer": trainer}
        return resolve(WorkerConfig, "worker", values, environment=environment)

    def here(self, rank: int) -> WorkerConfig:
        """Return the configuration of the replica with this rank, in this pod."""
        return self.config(rank)

    def note_failure(self, rank: int, reason: str) -> None:
        """Do nothing: Serve reports the reason in the status of the RayService."""

    def log_file(self, rank: int) -> Path | None:
        """Return the log file of the replica with this rank; None means Ray's own log files."""
        del rank
        return CONTAINER_OUTPUT if os.access(CONTAINER_OUTPUT, os.W_OK) else None
