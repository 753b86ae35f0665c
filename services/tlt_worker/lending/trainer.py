"""A worker's spot trainer: its process and the client to call it."""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Never, Protocol

from tlt_common.drafter.architecture import DrafterArchitecture
from tlt_common.processes.children import failure_of
from tlt_common.processes.core_waits import CoreWaits
from tlt_common.rpc.addresses import split
from tlt_common.rpc.channel import connect
from tlt_worker.checkpoints.model_config import read_config
from tlt_worker.checkpoints.own_head import with_architecture
from tlt_worker.config import WorkerConfig
from tlt_worker.engine.device import detect
from tlt_worker.engine.planning import trainer_share
from tlt_worker.engine_config import EngineConfig
from tlt_worker.lending.trainer_control import TrainerClient, TrainerControl
from tlt_worker.lending.trainer_process import TrainerProcess, command

SOCKET = "trainer.sock"


class Child(Protocol):
    """A child process that is kept alive while `run` runs."""

    @property
    def problem(self) -> str:
        """Why it last exited; empty if it did not or gave no reason."""
        ...

    @property
    def waits(self) -> CoreWaits:
        """Time that its threads have waited for a core."""
        ...

    def kill(self) -> None:
        """Kill the process; `run` restarts it."""
        ...

    async def suspend(self) -> None:
        """Stop the process until `resume`; returns once it has exited."""
        ...

    def resume(self) -> None:
        """Start the process again."""
        ...

    async def run(self, *, on_exit: Callable[[], None]) -> Never:
        """Keep the process alive until cancelled. `on_exit` is called whenever it exits by itself."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Trainer:
    """One spot trainer."""

    link: TrainerControl
    process: Child


@asynccontextmanager
async def spot_trainer(config: WorkerConfig, run_dir: Path) -> AsyncIterator[Trainer | None]:
    """Create a worker's trainer without starting it. None if disabled, or without a coordinator to grant leases."""
    if not config.trains:
        yield None
        return
    async with connect(f"unix:{run_dir / SOCKET}") as channel:
        settings = settings_of(config, run_dir)
        link = TrainerClient(channel)
        yield Trainer(link=link, process=TrainerProcess(command(settings), failure=failure_of(run_dir / SOCKET)))


def settings_of(config: WorkerConfig, run_dir: Path) -> dict[str, str]:
    """Return the trainer's settings: those derived from the worker's, and `trainer.settings`."""
    engine = with_architecture(config.engine, config.model)
    return {
        "socket": str(run_dir / SOCKET),
        "model": str(config.model),
        "worker_id": config.worker_id,
        "cache": config.cache,
        **_drafter_of(engine),
        "coordinator": config.coordinator,
        "drafter_dir": str(config.drafter_dir or run_dir / "drafters"),
        "checkpoint_dir": f"{config.checkpoint_dir or run_dir / 'checkpoints'}/{config.worker_id}",
        "threads": str(max(1, len(config.cores))),
        "log_level": config.log_level,
        "liveness_s": "null" if config.liveness_s is None else str(config.liveness_s),
        "traces": config.traces,
        **_memory_of(config, engine),
        **_metrics_of(config),
        **_tls_of(config),
        **{key: str(value) for key, value in config.trainer.settings.items()},
    }


def _drafter_of(engine: EngineConfig) -> dict[str, str]:
    """
    Return the drafters to train: those that the engine runs. A drafter set in the engine's configuration excludes a
    trainer.
    """
    found = {"drafter_architecture": str(engine.drafter_architecture or DrafterArchitecture.EAGLE)}
    if engine.draft_vocabulary is not None:
        found["draft_vocabulary"] = str(engine.draft_vocabulary)
    if engine.drafter_layers is not None:
        found["drafter_layers"] = json.dumps(engine.drafter_layers)
    if engine.drafter_format is not None:
        found["drafter_format"] = str(engine.drafter_format)
    return found


def _memory_of(config: WorkerConfig, engine: EngineConfig) -> dict[str, str]:
    """Return the limit of the trainer's memory from the engine's plan. Only GPUs have one."""
    device = detect()
    if device.kind == "cpu":
        return {}
    share = trainer_share(engine, device, read_config(config.model))
    return {} if share is None else {"memory_share": f"{share:.4f}"}


def _metrics_of(config: WorkerConfig) -> dict[str, str]:
    """
    Return the settings of the trainer's metrics, served on the worker's host at its port plus one; any free port if
    that is 0. RPCs use the Unix socket only.
    """
    port = config.metrics_port
    if port is not None and port != 0:
        port += 1
    file = config.port_file
    return {
        **({} if port is None else {"metrics_port": str(port), "metrics_host": split(config.listen)[0]}),
        **({} if file is None else {"port_file": str(file.with_stem(f"{file.stem}-trainer"))}),
    }


def _tls_of(config: WorkerConfig) -> dict[str, str]:
    """Return the trainer's TLS settings: it presents its worker's certificate."""
    files = config.tls.model_dump() if config.tls else {}
    return {f"tls.{key}": str(path) for key, path in files.items()}
