"""The spot trainer beside an engine: its process, and the line to it."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Never, Protocol

from tlt_common.rpc.channel import connect
from tlt_worker.config import WorkerConfig
from tlt_worker.trainer_link import TrainerClient, TrainerLink
from tlt_worker.trainer_process import TrainerProcess, command


class Child(Protocol):
    """A process that lives while somebody runs `run`."""

    def kill(self) -> None:
        """End it now; `run` starts it again."""
        ...

    async def run(self, *, on_exit: Callable[[], None]) -> Never:
        """Keep it alive until cancelled. `on_exit` is called whenever it died by itself."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Trainer:
    """One spot trainer."""

    link: TrainerLink
    process: Child


@asynccontextmanager
async def beside(config: WorkerConfig, run_dir: Path) -> AsyncIterator[Trainer | None]:
    """Make the trainer of a worker, not yet started. None without a coordinator, which alone can lend the device."""
    if not (config.trainer.enabled and config.coordinator):
        yield None
        return
    async with connect(f"unix:{run_dir / 'trainer.sock'}") as channel:
        limits = config.trainer
        link = TrainerClient(channel, start_s=limits.start_s, preempt_s=limits.preempt_s)
        yield Trainer(link=link, process=TrainerProcess(command(settings_of(config, run_dir))))


def settings_of(config: WorkerConfig, run_dir: Path) -> dict[str, str]:
    """What the trainer is told: what it shares with its worker, then what it is told on purpose."""
    return {
        "socket": str(run_dir / "trainer.sock"),
        "model": str(config.model),
        "worker_id": config.worker_id,
        "cache": config.cache,
        "coordinator": config.coordinator,
        "drafter_dir": str(config.drafter_dir or run_dir / "drafters"),
        "checkpoint_dir": f"{config.checkpoint_dir or run_dir / 'checkpoints'}/{config.worker_id}",
        "nice": str(config.trainer.nice),
        "threads": str(max(1, len(config.cores))),
        "log_level": config.log_level,
        "traces": config.traces,
        **_metrics_of(config),
        **_tls_of(config),
        **{key: str(value) for key, value in config.trainer.settings.items()},
    }


def _metrics_of(config: WorkerConfig) -> dict[str, str]:
    """Where the trainer shows its metrics: for whoever reads the worker's. Its calls come by the socket alone."""
    port = config.trainer.metrics_port
    if port is None and config.metrics_port is not None:
        port = config.metrics_port + 1 if config.metrics_port else 0
    file = config.port_file
    return {
        **({} if port is None else {"metrics_port": str(port), "metrics_host": config.listen.rpartition(":")[0]}),
        **({} if file is None else {"port_file": str(file.with_stem(f"{file.stem}-trainer"))}),
    }


def _tls_of(config: WorkerConfig) -> dict[str, str]:
    """A trainer is its worker's other half, and shows its worker's certificate."""
    files = config.tls.model_dump() if config.tls else {}
    return {f"tls.{key}": str(path) for key, path in files.items()}
