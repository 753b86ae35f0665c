"""
A Linux session of this process's own, with a small share of the processors.

With autogroup scheduling, as on most desktops and servers, Linux first divides processor time among sessions and
applies nice values only within one. A process with many busy threads then takes whatever its session gets, and its nice
value protects nobody in other sessions. A session of its own has a nice value of its own, in `/proc/PID/autogroup`.
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
    Move this process to a session of its own with this nice value; return whether it did.

    Does nothing where the kernel does not divide time among sessions, where the share cannot be written (its session
    would otherwise weigh as much as all others), and in a process that leads its group.

    Args:
        nice: 0 to 19, relative to other sessions.
        switch: File with which the kernel says that it divides time among sessions.
        share: File for the session's nice value.

    Raises:
        OSError: It has a session of its own, whose nice value the kernel refuses.
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
