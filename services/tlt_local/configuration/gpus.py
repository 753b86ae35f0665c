"""Number of workers and of GPUs per worker. Decided before anything starts; Ray assigns the devices."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tlt_common.errors import ConfigError
from tlt_local.configuration.settings import flattened
from tlt_worker.hardware.cuda import VISIBLE, gpus, has_slices, named

TENSOR_PARALLEL = "engine.tensor_parallel"
RANKS = f"worker.{TENSOR_PARALLEL}"
EACH = "--gpus-per-worker"
WORKERS_ON_CPU = 2
"""Workers without GPUs: the fewest of which one can train while the other finishes the tail."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Available:
    """GPUs that Ray can assign."""

    count: int = 0
    are_slices: bool = False
    """Whether they are MIG slices. A process can use only one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Placement of a run's workers."""

    workers: int
    gpus_each: int
    """GPUs per worker; 0 runs engines on the CPU."""


def available_gpus() -> Available:
    """
    Return the GPUs visible to this process. MIG slices must be named by CUDA_VISIBLE_DEVICES, since a process sees only
    one.

    Raises:
        ConfigError: See `tlt_worker.hardware.cuda.gpus`.
    """
    found, names = gpus(), named(os.environ.get(VISIBLE))
    if names and has_slices(names):
        return Available(count=len(names) if found else 0, are_slices=True)
    return Available(count=len(found), are_slices=any(gpu.is_slice for gpu in found))


def placed(workers: int | None, wanted: int | None, worker: Mapping[str, Any], *, available: Available) -> Placement:
    """
    Determine the number of workers and of GPUs per worker.

    Args:
        workers: `--workers`; None for as many as the GPUs suffice for, or `WORKERS_ON_CPU`.
        wanted: `--gpus-per-worker`; None for one per rank of an engine if the machine has GPUs, otherwise 0.
        worker: Settings of the workers.
        available: GPUs of this machine.

    Raises:
        ConfigError: There are too few GPUs, or an engine's ranks differ from the GPUs of a worker.
    """
    each = _gpus_each(wanted, worker, available)
    if workers is None:
        return Placement(workers=available.count // each if each else WORKERS_ON_CPU, gpus_each=each)
    if workers < 1:
        raise ConfigError(f"--workers is {workers}; accepted: 1 or more", field="workers")
    if workers * each > available.count:
        slices = f" (MIG slices count if {VISIBLE} names them)" if available.are_slices else ""
        raise ConfigError(
            f"--workers is {workers}, with {_counted(each, 'GPU')} each, but this machine has "
            f"{_counted(available.count, 'GPU')}{slices}; accepted: 1 to {available.count // each}, or {EACH} 0, which "
            "runs engines on the CPU",
            field="workers",
        )
    return Placement(workers=workers, gpus_each=each)


def _gpus_each(wanted: int | None, worker: Mapping[str, Any], available: Available) -> int:
    ranks = flattened(worker).get(TENSOR_PARALLEL)
    each = (int(ranks or 1) if available.count else 0) if wanted is None else wanted
    if each < 0:
        raise ConfigError(f"{EACH} is {each}; accepted: 0 or more", field="gpus_per_worker")
    if wanted and ranks is not None and int(ranks) != wanted:
        raise ConfigError(
            f"{EACH} is {wanted}, but {RANKS} is {ranks}; set one of them, or both to the same value",
            field="gpus_per_worker",
        )
    key = EACH if wanted else RANKS
    if each > 1 and available.are_slices:
        raise ConfigError(
            f"{key} is {each}, but a worker can use only one MIG slice; accepted: 1", field="gpus_per_worker"
        )
    if each > available.count:
        few = f"is {each}, but this machine has {_counted(available.count, 'GPU')}"
        raise ConfigError(
            f"{key} {few}; the maximum is {available.count}. Set {EACH} to 0 to run engines on the CPU",
            field="gpus_per_worker",
        )
    return each


def with_ranks(worker: Mapping[str, Any], gpus: int) -> dict[str, Any]:
    """Return the settings of a worker whose engine uses all of its GPUs."""
    is_set = TENSOR_PARALLEL in flattened(worker)
    return dict(worker) if gpus <= 1 or is_set else {TENSOR_PARALLEL: gpus, **worker}


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
