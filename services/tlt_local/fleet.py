"""The workers of a run: their settings and GPUs."""

from collections.abc import Mapping
from typing import Any

from tlt_local.configuration.certificates import certificate_of
from tlt_local.configuration.config import StackConfig
from tlt_local.configuration.gpus import with_ranks
from tlt_local.configuration.settings import spelled
from tlt_local.supervision.home import Home
from tlt_worker.placement.local import FleetSpec


def fleet_of(config: StackConfig, home: Home, services: Mapping[str, str]) -> FleetSpec:
    """
    Return the workers of a run, given the addresses of coordinator, cache and tuner by name.

    Raises:
        ConfigError: There are too few GPUs.
    """
    wanted, placement = config.settings.get("worker", {}), config.placement
    files = certificate_of(config.tls, "worker")
    worker: dict[str, Any] = {
        "model": str(config.model.resolve()),
        **services,
        "metrics_port": 0,
        "liveness_s": config.liveness_s,
        "drafter_dir": str(home.data / "drafters"),
        "checkpoint_dir": str(home.data / "checkpoints"),
        **({"tls": files.model_dump(mode="json")} if files else {}),
        **with_ranks(wanted, placement.gpus_each),
    }
    return FleetSpec(
        worker=worker,
        trainer=spelled(config.settings.get("trainer", {})),
        replicas=placement.workers,
        cores_per_worker=config.cores_per_worker,
        gpus_per_worker=placement.gpus_each,
        directory=home.directory,
        logs=home.logs,
        port_file=home.addresses("workers"),
    )
