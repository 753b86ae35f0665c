"""Which CPU cores belong to one worker: its device, when there is no other."""

import os
from collections.abc import Collection
from pathlib import Path


def share(cores: Collection[int], *, per_worker: int | None, replicas: int, rank: int) -> frozenset[int]:
    """
    Cores of the worker of that rank; shares of different ranks do not overlap while there are enough cores.

    Args:
        cores: What the machine offers.
        per_worker: Cores each worker gets; None divides all of them evenly, the first ranks taking the remainder.
        replicas: Workers on this machine.
        rank: 0 to replicas - 1.

    With fewer cores than asked for, workers take turns around the ring: sharing beats not starting.

    Raises:
        ValueError: No core, no replica, or a rank outside.
    """
    if not cores or replicas < 1 or not 0 <= rank < replicas or (per_worker is not None and per_worker < 1):
        raise ValueError(f"no share of {len(cores)} cores for rank {rank} of {replicas}, {per_worker} each")
    ring = sorted(cores)
    even, spare = divmod(len(ring), replicas)
    if per_worker is not None:
        start, count = rank * per_worker, min(per_worker, len(ring))
    else:
        start, count = (rank * even + min(rank, spare), even + (rank < spare)) if even else (rank, 1)
    return frozenset(ring[(start + i) % len(ring)] for i in range(count))


def pin(cores: Collection[int]) -> None:
    """
    Hold this process, and the children it will have, to `cores`.

    Every thread is moved: threads that libraries started at import (gRPC, OpenMP) keep their own affinity otherwise.
    """
    for task in Path("/proc/self/task").iterdir():
        os.sched_setaffinity(int(task.name), cores)
