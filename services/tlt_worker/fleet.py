"""Several workers on one machine, before anybody places them. Imports no ray."""

import os
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError

from tlt_common.config.base import Frozen
from tlt_common.errors import ConfigError
from tlt_worker.config import WorkerConfig
from tlt_worker.cores import share


class FleetSpec(Frozen):
    """What the replicas have in common, and what tells them apart."""

    worker: dict[str, Any]
    """Settings of `WorkerConfig`, without those that depend on the rank."""
    trainer: dict[str, str | int | float | bool] = Field(default_factory=dict)
    """Settings of the spot trainers."""
    replicas: int = Field(1, ge=1)
    cores_per_worker: int | None = Field(None, ge=1)
    """None divides the machine's cores evenly."""
    directory: Path
    """Short: sockets and streamed weights of worker N go to `DIRECTORY/wN`."""
    logs: Path
    """Worker N and its children write to `worker-N.log`."""
    port_file: Path | None = None
    """Written once every replica serves. What it says is in the files of the replicas."""

    def config(self, rank: int, cores: frozenset[int]) -> WorkerConfig:
        """
        Configure the replica of that rank on a machine with these cores.

        Raises:
            ConfigError: A setting is unknown or out of range.
        """
        mine = share(cores, per_worker=self.cores_per_worker, replicas=self.replicas, rank=rank)
        settings = {
            "threads": len(mine),
            **self.worker,
            "trainer": {**self.worker.get("trainer", {}), "settings": self.trainer},
            "worker_id": f"worker-{rank}",
            "cores": sorted(mine),
            "run_dir": self.directory / f"w{rank}",
            "port_file": self.directory / "addresses" / f"worker-{rank}.json",
        }
        try:
            return WorkerConfig.model_validate(settings)
        except ValidationError as error:
            first = error.errors()[0]
            key = ".".join(str(part) for part in first["loc"])
            raise ConfigError(f"worker.{key}: {first['msg']}", field=f"worker.{key}") from error

    def here(self, rank: int) -> WorkerConfig:
        """Configure the replica of that rank on this machine."""
        return self.config(rank, frozenset(os.sched_getaffinity(0)))

    def log_file(self, rank: int) -> Path:
        """Where the replica of that rank writes."""
        return self.logs / f"worker-{rank}.log"
