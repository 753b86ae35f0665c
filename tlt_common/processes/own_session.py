"""
Moves this process to its own Linux session with a small share of CPU time.

With autogroup scheduling, as on most desktops and servers, Linux first divides processor time among sessions and
applies nice values only within one. A process with many busy threads then uses its session's whole share, and its nice
value does not protect other sessions. A separate session has its own nice value in `/proc/PID/autogroup`.
"""

import os
import time
from pathlib import Path

SWITCH = Path("/proc/sys/kernel/sched_autogroup_enabled")
SHARE = Path("/proc/self/autogroup")
TRIES = 20
RETRY_S = 0.1
"""Linux lets processes without privileges write one share per tenth of a second, over the whole machine."""


def enter_own_session(nice: int, *, switch: Path = SWITCH, share: Path = SHARE) -> bool:
    """
    Move this process to its own session with this nice value; return whether it moved.

    Does nothing where the kernel does not divide time among sessions, where the share cannot be written (its session
    would otherwise weigh as much as all others), and in a process that leads its group.

    Args:
        nice: 0 to 19, relative to other sessions.
        switch: File that states whether the kernel divides time among sessions.
        share: File for the session's nice value.

    Raises:
        OSError: The process moved, and the nice value was refused.
    """
    if not _divides(switch) or not os.access(share, os.W_OK) or os.getpgrp() == os.getpid():
        return False
    os.setsid()
    for left in reversed(range(TRIES)):
        try:
            share.write_text(f"{nice}\n")
        except BlockingIOError:  # another process wrote one just now
            if not left:
                raise
            time.sleep(RETRY_S)
        else:
            break
    return True


def _divides(switch: Path) -> bool:
    try:
        return switch.read_text().strip() == "1"
    except OSError:
        return False
