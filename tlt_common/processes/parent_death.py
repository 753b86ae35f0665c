"""
Runs a program that is killed when its parent ends: `python parent_death.py PARENT_PID PROGRAM ARGUMENTS...`.

Linux only. The kernel sends SIGKILL when the parent's thread that forked ends; the setting survives exec, so no process
is needed to watch. `preexec_fn` is not used, because code between fork and exec may crash in a process with gRPC's
threads. Imports only the standard library, which adds 20 ms to a start.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def killed_with_parent(arguments: list[str]) -> list[str]:
    """Return the command that runs `arguments` as a child that is killed when this process ends."""
    return [sys.executable, "-S", "-E", __file__, str(os.getpid()), *arguments]


def die_with(parent: int) -> None:
    """Make the kernel kill this process when its parent ends."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # the parent died before prctl took effect
        sys.exit(1)


def main(parent: int, arguments: list[str]) -> None:
    """Replace this process with the program."""
    die_with(parent)
    os.execvp(arguments[0], arguments)  # noqa: S606 - no shell is needed


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
