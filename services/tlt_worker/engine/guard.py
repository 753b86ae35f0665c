"""
Ends an engine's processes when their owner is gone, however it died.

SGLang leaves its scheduler and detokenizer behind when the process that started it is killed. A guard is a small
process of its own that holds the read end of a pipe; the owner holds the write end, and the kernel closes it when the
owner ends, SIGKILL included. The guard then kills, by process id, every process that carries the owner's token in its
environment. Run as a script it imports the standard library only, so that it starts in a few hundredths of a second.
"""

import os
import secrets
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

TOKEN_VARIABLE = "TLT_GUARD_TOKEN"  # noqa: S105 - the name of a variable, not a secret

SETTLE_S = 5.0
"""Longest wait for killed processes to be gone; a process between fork and exec may show up late."""

SHARED_MEMORY = "/dev/shm/"  # noqa: S108 - where POSIX puts it

_POLL_S = 0.05


def marked(token: str) -> list[int]:
    """Return the ids of running processes that were started with `token` in their environment."""
    wanted = f"{TOKEN_VARIABLE}={token}".encode()
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            variables = (entry / "environ").read_bytes().split(b"\0")
            is_dead = (entry / "stat").read_text().rpartition(")")[2].split()[0] in "ZX"
        except OSError:
            continue  # it ended, or belongs to somebody else
        if wanted in variables and not is_dead:
            found.append(int(entry.name))
    return found


def shared_memory(pid: int) -> set[Path]:
    """Return the files of shared memory a process has mapped: a killed process leaves them in the machine's memory."""
    # By inode: a semaphore is mapped under the name it had before it got its own.
    try:
        files = {entry.inode(): Path(entry.path) for entry in os.scandir(SHARED_MEMORY)}
        lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
    except OSError:
        return set()  # it ended
    inodes = {int(line.split(maxsplit=5)[4]) for line in lines if f" {SHARED_MEMORY}" in line}
    return {files[inode] for inode in inodes & files.keys()}


def tidies_up(pid: int) -> bool:
    """Tell Python's resource trackers: they end by themselves after those they serve, and remove what those left."""
    try:
        return b"multiprocessing.resource_tracker" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False  # it ended


def kill_marked(token: str) -> None:
    """
    SIGKILL every process marked with `token`, wait until none is left or `SETTLE_S` have passed, and tidy up.

    Resource trackers are left to end by themselves.
    """
    give_up_s = time.monotonic() + SETTLE_S
    leaked: set[Path] = set()
    while (left := [pid for pid in marked(token) if not tidies_up(pid)]) and time.monotonic() < give_up_s:
        leaked |= {path for pid in left for path in shared_memory(pid)}
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        time.sleep(_POLL_S)
    for path in leaked:
        path.unlink(missing_ok=True)


@dataclass(slots=True)
class Guard:
    """
    A running guard. Start children with `variables` in their environment to have them ended with this process.

    Usable by any process that owns others; each owner has a guard of its own.
    """

    token: str = field(default_factory=lambda: secrets.token_hex(16))
    _process: subprocess.Popen[bytes] = field(init=False)
    _lifeline: int = field(init=False)

    def __post_init__(self) -> None:
        read_end, self._lifeline = os.pipe()  # neither is inherited by exec, except what pass_fds names
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-S", "-E", __file__, str(read_end), self.token],
                pass_fds=[read_end],
                stdin=subprocess.DEVNULL,
                # A session of its own: a signal to the owner's process group must not end the guard first.
                start_new_session=True,
            )
        finally:
            os.close(read_end)

    @property
    def variables(self) -> dict[str, str]:
        """Environment that marks a process as guarded."""
        return {TOKEN_VARIABLE: self.token}

    def close(self) -> None:
        """End the guarded processes now. Closing twice does nothing."""
        if self._lifeline < 0:
            return
        os.close(self._lifeline)
        self._lifeline = -1
        self._process.wait(timeout=2 * SETTLE_S)


def main(read_end: int, token: str) -> None:
    """Wait for the owner's end, then kill what it left behind."""
    for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)
    while os.read(read_end, 1):
        pass
    kill_marked(token)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
