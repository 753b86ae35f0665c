"""How a device's memory is shared out beside weights and key/value cache."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

GIB = 2**30

GRAPHS_SHARE, WORK_SHARE = 0.4, 0.2
"""Of a GPU's memory that `gpu_memory` leaves; prefill and the trainer beside the engine get the rest."""
CPU_WORK_SHARE = 0.2
"""Of a machine's memory, where weights, cache and trainers lie in it as well."""

BACKLOG_BYTES = 256 * 2**20
"""Most hidden states kept of rounds and prompts the drafter did not see, to complete its cache from."""
SLOT_BYTES = 8
"""Where the state of each slot of the cache is kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """Bytes per rank."""

    graphs: int
    work: int
    """For what rounds allocate."""


def backlog_of(*, slots: int, state_bytes: int) -> int:
    """Bytes an engine with a drafter may keep between rounds, on each rank."""
    return min(BACKLOG_BYTES, slots * state_bytes) + slots * SLOT_BYTES


def gpu_memory_of(gpu_bytes: Sequence[int], *, share: float, graphs: int | None) -> Memory:
    """Share out the smallest of some GPUs, of which `share` goes to weights and key/value cache."""
    rest = int(min(gpu_bytes) * (1 - share))
    return Memory(graphs=int(rest * GRAPHS_SHARE) if graphs is None else graphs, work=int(rest * WORK_SHARE))


def cpu_memory_of(machine_bytes: int, *, ranks: int) -> Memory:
    """Share out a machine's memory: no graphs there."""
    return Memory(graphs=0, work=int(machine_bytes * CPU_WORK_SHARE / ranks))


def machine_memory(root: Path = Path("/")) -> int:
    """Bytes of this machine, or of the container this process is in."""
    total = next(
        int(line.split()[1]) * 1024
        for line in (root / "proc/meminfo").read_text().splitlines()
        if line.startswith("MemTotal:")
    )
    try:
        limit = (root / "sys/fs/cgroup/memory.max").read_text().strip()
    except OSError:
        return total
    return min(total, int(limit)) if limit.isdigit() else total
