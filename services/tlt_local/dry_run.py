"""`tlt up --dry-run`: what would start, on which devices and ports, and how each engine divides its memory."""

import os
from pathlib import Path

from tlt_local.addresses import HOST
from tlt_local.configuration.config import StackConfig, check
from tlt_local.fleet import fleet_of
from tlt_local.supervision.home import Home
from tlt_worker.commands.engine_plan import plan_lines
from tlt_worker.hardware.cuda import VISIBLE

PORTS = ("rollouts (gRPC)", "coordinator", "page", "rollouts over HTTP")
NOWHERE = Path("/tmp/tlt-dry-run")  # noqa: S108 - nothing is written
TEMPORARY = "a temporary directory, deleted at exit"


def dry_run_lines(config: StackConfig) -> list[str]:
    """
    Check a run and return its description, a line per item. Starts and writes nothing.

    Raises:
        ConfigError: See `check`.
    """
    check(config)
    placement, home = config.placement, Home(directory=NOWHERE, data=NOWHERE, token="", leave=lambda: None)
    fleet = fleet_of(config, home, {})
    cores = frozenset(os.sched_getaffinity(0))
    workers = [fleet.config(rank, cores) for rank in range(placement.workers)]
    redis = "embedded Redis" if config.redis.get_secret_value() == "embedded" else "the given Redis"
    ports = [f"{HOST}:{port or 'any free port'}  {what}" for port, what in zip(config.ports, PORTS, strict=True)]
    return [
        f"model     {config.model.resolve()}",
        f"drafter   {config.drafter_uri or 'none until one is trained'}",
        f"services  gateway, coordinator, tuner, cache with {redis}",
        *(f"{'ports' if not number else '':8}  {line}" for number, line in enumerate(ports)),
        *(
            f"{worker.worker_id:8}  {_device(placement.gpus_each)}, {_numbered('core', worker.cores)}"
            for worker in workers
        ),
        f"files     {config.run_dir.resolve() if config.run_dir else TEMPORARY}",
        "",
        "memory of each worker's engine:",
        *plan_lines(workers[0], device="auto" if placement.gpus_each else "cpu"),
    ]


def _device(gpus: int) -> str:
    if not gpus:
        return "CPU"
    among = os.environ.get(VISIBLE)
    return f"{gpus} GPU{'' if gpus == 1 else 's'}{f' of {VISIBLE}={among}' if among else ''}"


def _numbered(noun: str, numbers: tuple[int, ...]) -> str:
    return f"{noun}{'' if len(numbers) == 1 else 's'} {', '.join(map(str, numbers))}"
