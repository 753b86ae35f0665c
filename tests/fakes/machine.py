"""Processes and ports of this machine."""

from pathlib import Path
from socket import socket


def lives(pid: int) -> bool:
    """Whether a process runs: one that has exited and that nobody has waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def free_port() -> int:
    """Return a port at which nothing listens."""
    with socket() as bound:
        bound.bind(("127.0.0.1", 0))
        return int(bound.getsockname()[1])
