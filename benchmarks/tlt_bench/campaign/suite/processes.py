"""Finds and signals the processes of a run. Only processes with the run's token are ever signaled."""

import os
import re
import signal
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from tlt_common.processes.guard import doomed
from tlt_local.supervision import guard

_NUMBERS = re.compile(r"[0-9a-f]{16,}|[0-9]+")


@dataclass(slots=True, eq=False)
class Victim:
    """A process held by a descriptor, so that a signal never reaches another process that reuses its id."""

    pid: int
    _descriptor: int

    @classmethod
    def held(cls, pid: int) -> Self | None:
        """Hold a process; return None if it has ended."""
        try:
            return cls(pid, os.pidfd_open(pid))
        except OSError:
            return None

    def send(self, number: signal.Signals) -> None:
        """Send a signal; does nothing if the process has ended."""
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._descriptor, number)

    @property
    def is_alive(self) -> bool:
        """Whether it is running; a zombie is not."""
        try:
            state = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[0]
            signal.pidfd_send_signal(self._descriptor, 0)
        except OSError:
            return False
        return state not in {"Z", "X"}

    def close(self) -> None:
        """Release the descriptor."""
        os.close(self._descriptor)


def commands(token: str) -> dict[int, str]:
    """Return the command line of each process of the run by its id, arguments separated by NUL."""
    found = {}
    for pid in doomed(guard.processes(token), spared=os.getpid()):
        with suppress(OSError):  # it has ended
            found[pid] = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
    return found


def pids(token: str, is_one: Callable[[str], bool]) -> list[int]:
    """Return the processes of the run whose command line satisfies a condition, in order of their ids."""
    return sorted(pid for pid, command in commands(token).items() if is_one(command))


def kinds(token: str) -> Counter[str]:
    """Return the number of the run's processes by program, without Ray's own."""
    programs = [_NUMBERS.sub("#", " ".join(command.split("\0")[:5])) for command in commands(token).values()]
    return Counter(program for program in programs if not program.startswith("ray::") and "/ray/" not in program)
