"""The specification of several workers on one machine. Does not import ray."""

import os
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError

from tlt_common.config.base import Frozen
from tlt_common.config.loader import nested
from tlt_common.errors import ConfigError
from tlt_common.whole_file import write_whole
from tlt_worker.config import WorkerConfig
from tlt_worker.hardware.cores import share


class FleetSpec(Frozen):
    """Settings common to all replicas, from which those of each rank are derived."""

    worker: dict[str, Any]
    """Keys of `WorkerConfig`, nested or dotted, except those that depend on the rank."""
    trainer: dict[str, str | int | float | bool] = Field(default_factory=dict)
    """Settings of the spot trainers."""
    replicas: int = Field(1, ge=1)
    cores_per_worker: int | None = Field(None, ge=1)
    """CPU cores per worker; null divides the machine's cores evenly."""
    gpus_per_worker: int = Field(0, ge=0)
    """GPUs per worker, assigned by Ray; 0 runs engines on the CPU."""
    directory: Path
    """Parent of the workers' run directories: worker N uses `DIRECTORY/wN` for sockets and streamed weights. Keep it
    short."""
    logs: Path
    """Directory of log files: worker N and its children write to `worker-N.log`."""
    port_file: Path | None = None
    """File to write once every replica serves. The replicas' own files contain their addresses."""

    @property
    def gpus(self) -> int:
        """GPUs that Ray assigns to each replica."""
        return self.gpus_per_worker

    def config(self, rank: int, cores: frozenset[int]) -> WorkerConfig:
        """
        Return the configuration of the replica with this rank, on a machine with these cores.

        Raises:
            ConfigError: A setting is unknown or out of range.
        """
        mine = share(cores, per_worker=self.cores_per_worker, replicas=self.replicas, rank=rank)
        worker = nested(self.worker)
        settings = {
            **worker,
            "engine": {"threads": len(mine), **worker.get("engine", {})},
            "trainer": {**worker.get("trainer", {}), "settings": self.trainer},
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
        """Return the configuration of the replica with this rank, on this machine."""
        return self.config(rank, frozenset(os.sched_getaffinity(0)))

    @property
    def failures(self) -> Path:
        """Directory of failure reasons, one file per rank of a replica that did not start or ended by itself."""
        return self.directory / "failures"

    def note_failure(self, rank: int, reason: str) -> None:
        """Record why the replica with this rank failed, for the process that runs the fleet."""
        self.failures.mkdir(parents=True, exist_ok=True)
        write_whole(self.failures / str(rank), reason.encode())

    def failure(self) -> str:
        """Return why replicas failed, on one line; empty if none gave a reason."""
        noted = sorted(
            (path for path in self.failures.glob("*") if path.name.isdecimal()), key=lambda path: int(path.name)
        )
        reasons: dict[str, list[str]] = {}
        for path in noted:
            reasons.setdefault(" ".join(path.read_text().split()), []).append(f"worker-{path.name}")
        return "; ".join(f"{', '.join(names)}: {reason}" for reason, names in reasons.items())

    def last_lines(self) -> str:
        """Return the last line of each replica's log, to append to a reason; empty if there is none."""
        told = [
            f"{path.stem}: {written.splitlines()[-1].strip()}"
            for path in map(self.log_file, range(self.replicas))
            if path.is_file() and (written := path.read_text(errors="replace").strip())
        ]
        return f"; last log lines: {'; '.join(told)}" if told else ""

    def log_file(self, rank: int) -> Path:
        """Return the log file of the replica with this rank."""
        return self.logs / f"worker-{rank}.log"
