"""
A tiny process that outlives the run by a moment: when its owner lets go of the pipe, or dies, everything goes.

Run as `python -m tlt_lab.up.guard TOKEN DIRECTORY`. It reads its standard input to the end, kills every process that
carries the token in its environment together with what those started, removes the directory and prints the names
of those processes as JSON. Almost only the standard library is imported: it costs 10 MB while the suite runs.
"""

import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tlt_worker.engine.guard import shared_memory

TOKEN_VARIABLE = "TLT_RUN_TOKEN"  # noqa: S105 - marks our processes, opens nothing
GRACE_S = 1.0
"""For processes on their way out, when the owner says goodbye."""
SWEEP_S = 10.0
"""A killed process that is still there after so long hangs in the kernel; there is nothing more to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessEntry:
    """A living process as /proc tells it."""

    pid: int
    parent: int
    marked: bool
    """Carries the token."""


def doomed(processes: Iterable[ProcessEntry], spared: int) -> frozenset[int]:
    """
    Choose whom to kill: the marked and all their descendants, marked or not, but not `spared`.

    Programs that write their title over their environment (Redis does) are found through their parents.
    """
    entries = [entry for entry in processes if entry.pid != spared]
    found = {entry.pid for entry in entries if entry.marked}
    while more := {entry.pid for entry in entries if entry.parent in found} - found:
        found |= more
    return frozenset(found)


def environment(token: str) -> Mapping[str, str]:
    """What a process must have in its environment to belong to the run."""
    # SPT_NOENV keeps the setproctitle library, which SGLang and Ray use, from overwriting the environment.
    return {TOKEN_VARIABLE: token, "SPT_NOENV": "1"}


def processes(token: str) -> list[ProcessEntry]:
    """All living processes this user may look into."""
    mark = f"{TOKEN_VARIABLE}={token}".encode()
    entries = []
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            marked = mark in (folder / "environ").read_bytes().split(b"\0")
            # "pid (name) state parent ...": the name may hold blanks and brackets.
            state, parent = (folder / "stat").read_text().rpartition(")")[2].split()[:2]
        except OSError:  # it ended meanwhile, or belongs to somebody else
            continue
        if state not in {"Z", "X"}:
            entries.append(ProcessEntry(pid=int(folder.name), parent=int(parent), marked=marked))
    return entries


def sweep(token: str, *, grace_s: float) -> list[str]:
    """Kill whoever is left after `grace_s`, until nobody is; return the names of those who were killed."""
    killed: dict[int, str] = {}
    patient_s = time.monotonic() + grace_s
    while doomed(processes(token), os.getpid()) and time.monotonic() < patient_s:
        time.sleep(0.05)
    deadline_s = time.monotonic() + SWEEP_S
    leaked: set[Path] = set()
    while (victims := doomed(processes(token), os.getpid())) and time.monotonic() < deadline_s:
        leaked |= {path for pid in victims for path in shared_memory(pid)}
        for pid in victims:
            with suppress(OSError):  # it ended meanwhile
                killed.setdefault(pid, Path(f"/proc/{pid}/comm").read_text().strip())
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)
    for path in leaked:
        path.unlink(missing_ok=True)
    return sorted(killed.values())


def main(token: str, directory: str) -> int:
    """Wait for the owner to let go, then clean up."""
    for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)
    parting = sys.stdin.buffer.read()
    killed = sweep(token, grace_s=GRACE_S if parting else 0.0)
    shutil.rmtree(directory, ignore_errors=True)
    with suppress(BrokenPipeError):  # nobody reads it when the owner was killed
        os.write(1, json.dumps(killed).encode())
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
