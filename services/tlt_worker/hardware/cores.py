"""Assigns CPU cores to workers."""

import os
from collections.abc import Collection
from pathlib import Path


def share(cores: Collection[int], *, per_worker: int | None, replicas: int, rank: int) -> frozenset[int]:
    """
    Return the cores of the worker with this rank. Workers share cores only if there are too few.

    Args:
        cores: Cores of the machine.
        per_worker: Cores per worker; None divides all cores evenly, and the first ranks get the remainder.
        replicas: Number of workers on this machine.
        rank: 0 to replicas - 1.

    Raises:
        ValueError: There are no cores or replicas, or the rank is out of range.
    """
    if not cores or replicas < 1 or not 0 <= rank < replicas or (per_worker is not None and per_worker < 1):
        raise ValueError(f"cannot divide {len(cores)} cores: rank {rank} of {replicas}, {per_worker} per worker")
    ring = sorted(cores)
    even, spare = divmod(len(ring), replicas)
    if per_worker is not None:
        start, count = rank * per_worker, min(per_worker, len(ring))
    else:
        start, count = (rank * even + min(rank, spare), even + (rank < spare)) if even else (rank, 1)
    return frozenset(ring[(start + i) % len(ring)] for i in range(count))


def pin(cores: Collection[int]) -> None:
    """
    Pin this process and its future children to `cores`.

    Pins every thread: threads that libraries started at import (gRPC, OpenMP) would otherwise keep their affinity.
    """
    for task in Path("/proc/self/task").iterdir():
        os.sched_setaffinity(int(task.name), cores)
