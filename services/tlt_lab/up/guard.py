"""
A tiny process that outlives the run by a moment: when its owner lets go of the pipe, or dies, everything goes.

Run as `python -m tlt_lab.up.guard TOKEN DIRECTORY`. A byte on its standard input says that the run is about to end, the
end of the input that the owner is gone, one way or the other. The guard then kills every process that carries the token
in its environment, with what those started, removes their shared memory and the directory, and prints the names of the
killed as JSON. Almost only the standard library is imported: it costs 10 MB while the suite runs.
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

from tlt_worker.engine.guard import shared_memory, tidies_up

TOKEN_VARIABLE = "TLT_RUN_TOKEN"  # noqa: S105 - marks our processes, opens nothing
GRACE_S = 1.0
"""For processes on their way out, when the owner says goodbye."""
LOOK_S = 0.05
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


def mapped(token: str) -> set[Path]:
    """Shared memory of all processes of the run."""
    return {path for pid in doomed(processes(token), os.getpid()) for path in shared_memory(pid)}


def sweep(token: str, *, grace_s: float) -> list[str]:
    """Kill whoever is left after `grace_s`, until nobody is; return the names of those who were killed."""
    killed: dict[int, str] = {}
    patient_s = time.monotonic() + grace_s
    while doomed(processes(token), os.getpid()) and time.monotonic() < patient_s:
        time.sleep(LOOK_S)
    deadline_s = time.monotonic() + SWEEP_S
    while (left := doomed(processes(token), os.getpid())) and time.monotonic() < deadline_s:
        victims = [pid for pid in left if not tidies_up(pid)]
        for pid in victims:
            with suppress(OSError):  # it ended meanwhile
                killed.setdefault(pid, Path(f"/proc/{pid}/comm").read_text().strip())
                os.kill(pid, signal.SIGKILL)
        time.sleep(LOOK_S)
    return sorted(killed.values())


def main(token: str, directory: str) -> int:
    """Wait for the owner to let go, then clean up."""
    for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)
    told = os.read(0, 1)
    # Taken before anybody ends: Ray kills what would tidy up behind a process that ends in order.
    shared = mapped(token)
    sys.stdin.buffer.read()
    killed = sweep(token, grace_s=GRACE_S if told else 0.0)
    for path in shared:
        path.unlink(missing_ok=True)
    shutil.rmtree(directory, ignore_errors=True)
    with suppress(BrokenPipeError):  # nobody reads it when the owner was killed
        os.write(1, json.dumps(killed).encode())
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
