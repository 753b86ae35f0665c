"""Number of GPUs per worker. Decided before anything starts; Ray assigns the devices."""

from collections.abc import Mapping
from typing import Any

from tlt_common.errors import ConfigError
from tlt_local.settings import flattened
from tlt_worker.engine.device import gpu_memory

TENSOR_PARALLEL = "engine.tensor_parallel"


def visible_gpus() -> int:
    """Count the GPUs that this process may use."""
    return len(gpu_memory())


def gpus_each(workers: int, wanted: int | None, worker: Mapping[str, Any], *, available: int) -> int:
    """
    Decide how many GPUs each worker gets; 0: engines run on the CPU.

    Args:
        workers: Workers to start.
        wanted: `--gpus-per-worker`; None: one per rank of an engine if the machine has GPUs, else 0.
        worker: Settings of the workers.
        available: GPUs of this machine.

    Raises:
        ConfigError: There are too few GPUs, or an engine's ranks differ from the GPUs of a worker.
    """
    ranks = flattened(worker).get(TENSOR_PARALLEL)
    each = (int(ranks or 1) if available else 0) if wanted is None else wanted
    if each < 0:
        raise ConfigError(f"--gpus-per-worker is {each}; accepted: 0 or more", field="gpus_per_worker")
    if wanted and ranks is not None and int(ranks) != wanted:
        raise ConfigError(
            f"--gpus-per-worker is {wanted}, but worker.{TENSOR_PARALLEL} is {ranks}; set one of them, "
            "or both to the same value",
            field="gpus_per_worker",
        )
    if workers * each > available:
        raise ConfigError(
            f"{workers} workers with {each} GPUs each need {workers * each} GPUs, and this machine has {available}; "
            "set --workers or --gpus-per-worker (0 runs engines on the CPU)",
            field="gpus_per_worker",
        )
    return each


def with_ranks(worker: Mapping[str, Any], gpus: int) -> dict[str, Any]:
    """Return the settings of a worker whose engine uses all of its GPUs."""
    is_set = TENSOR_PARALLEL in flattened(worker)
    return dict(worker) if gpus <= 1 or is_set else {TENSOR_PARALLEL: gpus, **worker}
