"""Memory for graphs and rounds; that of GPUs is divided by `gpu_plan`."""

from dataclasses import dataclass
from pathlib import Path

GIB = 2**30

CPU_WORK_SHARE = 0.2
"""Fraction of a machine's memory, which also holds weights, KV cache and trainers."""

BACKLOG_BYTES = 256 * 2**20
"""Maximum size of hidden states kept from rounds and prompts that the drafter did not process, to complete its KV
cache."""
SLOT_BYTES = 8
"""Bytes per KV cache slot to locate its hidden state."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """Bytes per rank."""

    graphs: int
    work: int
    """For allocations of rounds."""


def backlog_of(*, slots: int, state_bytes: int) -> int:
    """Return the bytes an engine with a drafter may keep between rounds, on each rank."""
    return min(BACKLOG_BYTES, slots * state_bytes) + slots * SLOT_BYTES


def cpu_memory_of(machine_bytes: int, *, ranks: int) -> Memory:
    """Divide a machine's memory; a CPU has no graphs."""
    return Memory(graphs=0, work=int(machine_bytes * CPU_WORK_SHARE / ranks))


def machine_memory(root: Path = Path("/")) -> int:
    """Return the memory of this machine, or of the container this process runs in, in bytes."""
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
