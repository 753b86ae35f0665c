"""
A process that cleans up after a run, also when `tlt up` is killed.

Run as `python -m tlt_local.supervision.guard TOKEN DIRECTORY`. A byte on standard input announces an orderly end; the
end of input means that the owner has exited. The guard then kills every process that carries the token in its
environment, with its descendants, removes their shared memory and the directory, and prints the names of the killed
processes as JSON. It imports almost nothing but the standard library, so it takes 10 MB of memory.
"""

import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from tlt_common.processes.guard import ProcessEntry, is_resource_tracker, living, shared_memory

TOKEN_VARIABLE = "TLT_RUN_TOKEN"  # noqa: S105 - a marker, not a secret
GRACE_S = 1.0
"""Time for processes to exit by themselves after an orderly end was announced."""
POLL_S = 0.05
SWEEP_S = 10.0
"""Time limit of killing; a process that still exists then hangs in the kernel."""


def doomed(processes: Iterable[ProcessEntry], spared: int) -> frozenset[int]:
    """
    Return the ids of marked processes and of all their descendants, marked or not, except `spared`.

    Programs that overwrite their environment with their title, as Redis does, are found through their parents.
    """
    entries = [entry for entry in processes if entry.pid != spared]
    found = {entry.pid for entry in entries if entry.marked}
    while more := {entry.pid for entry in entries if entry.parent in found} - found:
        found |= more
    return frozenset(found)


def environment(token: str) -> Mapping[str, str]:
    """Return the variables that mark a process as part of the run."""
    # SPT_NOENV keeps the setproctitle library, which SGLang and Ray use, from overwriting the environment.
    return {TOKEN_VARIABLE: token, "SPT_NOENV": "1"}


def processes(token: str) -> list[ProcessEntry]:
    """Return all running processes this user may inspect."""
    return living(f"{TOKEN_VARIABLE}={token}")


def mapped(token: str) -> set[Path]:
    """Return the shared memory files of all processes of the run."""
    return {path for pid in doomed(processes(token), os.getpid()) for path in shared_memory(pid)}


def sweep(token: str, *, grace_s: float) -> list[str]:
    """Kill the processes that are left after `grace_s`, until none is; return their names."""
    killed: dict[int, str] = {}
    grace_until_s = time.monotonic() + grace_s
    while doomed(processes(token), os.getpid()) and time.monotonic() < grace_until_s:
        time.sleep(POLL_S)
    deadline_s = time.monotonic() + SWEEP_S
    while (left := doomed(processes(token), os.getpid())) and time.monotonic() < deadline_s:
        victims = [pid for pid in left if not is_resource_tracker(pid)]
        for pid in victims:
            with suppress(OSError):  # it has exited
                killed.setdefault(pid, Path(f"/proc/{pid}/comm").read_text().strip())
                os.kill(pid, signal.SIGKILL)
        time.sleep(POLL_S)
    return sorted(killed.values())


def main(token: str, directory: str) -> int:
    """Wait for the end of the run, then clean up."""
    for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)
    announced = os.read(0, 1)
    # Listed before any process exits: Ray kills the processes that would remove their own shared memory.
    shared = mapped(token)
    sys.stdin.buffer.read()
    killed = sweep(token, grace_s=GRACE_S if announced else 0.0)
    for path in shared:
        path.unlink(missing_ok=True)
    shutil.rmtree(directory, ignore_errors=True)
    with suppress(BrokenPipeError):  # the owner was killed
        os.write(1, json.dumps(killed).encode())
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
