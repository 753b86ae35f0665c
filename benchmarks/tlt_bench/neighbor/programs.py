"""Programs in their own sessions, and the usage of a suite's processes from Linux's accounting."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tlt_common.processes.guard import doomed
from tlt_local.supervision.guard import processes

NANO = 1e-9
BUSY = "while True: pass"
SLEEP = """
import subprocess, time
began_s = time.monotonic()
subprocess.run(["sleep", "3"])
print(time.monotonic() - began_s)
"""
SLEEP_LIMIT_S = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Used:
    """CPU usage of threads so far."""

    cpu_s: float
    slices: int
    """Number of times they were given a core. For threads that mostly sleep, the number of wake-ups."""

    def since(self, before: "Used") -> "Used":
        """Return the difference."""
        return Used(cpu_s=self.cpu_s - before.cpu_s, slices=self.slices - before.slices)


def used_by(pids: frozenset[int]) -> Used:
    """Return the CPU usage of processes' threads, without those that have ended."""
    cpu_ns = slices = 0
    for pid in pids:
        try:
            tasks = tuple(Path(f"/proc/{pid}/task").iterdir())
        except OSError:
            continue
        for task in tasks:
            try:
                ran_ns, _, count = (task / "schedstat").read_text().split()
            except OSError:
                continue
            cpu_ns, slices = cpu_ns + int(ran_ns), slices + int(count)
    return Used(cpu_s=cpu_ns * NANO, slices=slices)


def of_suite(token: str) -> frozenset[int]:
    """Return the processes of the suite with this token only."""
    return doomed(processes(token), os.getpid())


@contextmanager
def busy_loop() -> Iterator[frozenset[int]]:
    """Run a busy loop with one thread in its own session."""
    with subprocess.Popen([sys.executable, "-S", "-c", BUSY], start_new_session=True) as process:
        try:
            yield frozenset({process.pid})
        finally:
            process.kill()


def sleep_3_s() -> float:
    """Return how long `sleep 3` takes when started by a program in its own session."""
    ran = subprocess.run(
        [sys.executable, "-S", "-c", SLEEP],
        start_new_session=True, stdout=subprocess.PIPE, check=True, timeout=SLEEP_LIMIT_S,
    )  # fmt: skip
    return float(ran.stdout)


def rates(pids: frozenset[int], seconds: float) -> tuple[float, float]:
    """Return cores and slices per second used by processes, measured over a number of seconds. Blocks."""
    before, began_s = used_by(pids), time.monotonic()
    time.sleep(seconds)
    passed, elapsed_s = used_by(pids).since(before), time.monotonic() - began_s
    return passed.cpu_s / elapsed_s, passed.slices / elapsed_s
