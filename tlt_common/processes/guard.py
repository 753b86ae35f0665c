"""
Kills an engine's processes when their owner dies, for whatever reason.

SGLang leaves its scheduler and detokenizer running when the process that started it is killed. A guard is a small
process that holds the read end of a pipe; the owner holds the write end, which the kernel closes when the owner ends,
also by SIGKILL. The guard then kills, by process id, every process with the owner's token in its environment, and
removes the engine's directory. As a script it imports only the standard library, so that it starts in a few hundredths
of a second.
"""

import os
import secrets
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

TOKEN_VARIABLE = "TLT_GUARD_TOKEN"  # noqa: S105 - the name of a variable, not a secret

SETTLE_S = 5.0
"""Maximum seconds to wait for killed processes to end; a process between fork and exec may appear late."""

SHARED_MEMORY = "/dev/shm/"  # noqa: S108 - POSIX shared memory

_POLL_S = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessEntry:
    """A running process, from /proc."""

    pid: int
    parent: int
    marked: bool
    """Whether its environment contains the mark."""


def living(mark: str) -> list[ProcessEntry]:
    """Return the running processes that this user may inspect. `mark` is NAME=VALUE in their initial environment."""
    variable = mark.encode()
    entries = []
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            marked = variable in (folder / "environ").read_bytes().split(b"\0")
            # "pid (name) state parent ...": the name may contain spaces and parentheses.
            state, parent = (folder / "stat").read_text().rpartition(")")[2].split()[:2]
        except OSError:  # it has ended, or belongs to another user
            continue
        if state not in {"Z", "X"}:
            entries.append(ProcessEntry(pid=int(folder.name), parent=int(parent), marked=marked))
    return entries


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


def shared_memory(pid: int) -> set[Path]:
    """Return the shared-memory files that a process has mapped; a killed process does not remove them."""
    # By inode: a semaphore is mapped under its temporary name.
    try:
        files = {entry.inode(): Path(entry.path) for entry in os.scandir(SHARED_MEMORY)}
        lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
    except OSError:
        return set()  # it ended
    inodes = {int(line.split(maxsplit=5)[4]) for line in lines if f" {SHARED_MEMORY}" in line}
    return {files[inode] for inode in inodes & files.keys()}


def is_resource_tracker(pid: int) -> bool:
    """Whether a process is a Python resource tracker, which ends after the processes it serves and cleans up."""
    try:
        return b"multiprocessing.resource_tracker" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False  # it ended


def sweep(mark: str, *, grace_s: float = 0.0, limit_s: float = SETTLE_S, awaits_trackers: bool = False) -> list[str]:
    """
    Kill the marked processes and their descendants that remain after `grace_s`, until none is left; return their names.

    Removes the shared memory they had mapped. Resource trackers are not killed; they end by themselves, after the last
    process that has used them, which may be the owner that waits for this sweep: they are awaited only if asked for.
    Gives up `limit_s` after the first kill: a process that still exists then hangs in the kernel.
    """
    killed: dict[int, str] = {}
    leaked: set[Path] = set()
    began_s = time.monotonic()
    while True:
        found = doomed(living(mark), os.getpid())
        left = [pid for pid in found if not is_resource_tracker(pid)]
        if not left and not (found and awaits_trackers):
            break
        passed_s = time.monotonic() - began_s
        if passed_s >= grace_s + limit_s:
            break
        leaked |= {path for pid in left for path in shared_memory(pid)}
        for pid in left if passed_s >= grace_s else ():
            with suppress(OSError):  # it has exited
                killed.setdefault(pid, Path(f"/proc/{pid}/comm").read_text().strip())
                os.kill(pid, signal.SIGKILL)
        time.sleep(_POLL_S)
    for path in leaked:
        path.unlink(missing_ok=True)
    return sorted(killed.values())


@dataclass(slots=True)
class Guard:
    """
    A running guard. Children started with `variables` in their environment are killed when this process ends.

    Any process may create one for its own children.

    Args:
        directory: Directory to remove with them; None removes nothing.
    """

    directory: Path | None = None
    token: str = field(default_factory=lambda: secrets.token_hex(16))
    _process: subprocess.Popen[bytes] = field(init=False)
    _lifeline: int = field(init=False)

    def __post_init__(self) -> None:
        read_end, self._lifeline = os.pipe()  # exec inherits neither, except for pass_fds
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-S", "-E", __file__, str(read_end), self.token, str(self.directory or "")],
                pass_fds=[read_end],
                stdin=subprocess.DEVNULL,
                # In its own session, so that a signal to the owner's process group does not end the guard first.
                start_new_session=True,
            )
        finally:
            os.close(read_end)

    @property
    def variables(self) -> dict[str, str]:
        """Environment that marks a process as guarded."""
        return {TOKEN_VARIABLE: self.token}

    def close(self) -> None:
        """Kill the guarded processes now. Idempotent."""
        if self._lifeline < 0:
            return
        os.close(self._lifeline)
        self._lifeline = -1
        self._process.wait(timeout=2 * SETTLE_S)


def main(read_end: int, token: str, directory: str) -> None:
    """Wait for the owner's end, then kill its remaining processes and remove its directory if it is not empty."""
    for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)
    while os.read(read_end, 1):
        pass
    sweep(f"{TOKEN_VARIABLE}={token}")
    if directory:
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), *sys.argv[2:])
