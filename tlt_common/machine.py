"""The machine this process runs on."""

from functools import cache
from pathlib import Path


@cache
def boot_id() -> str:
    """
    Return the boot id of this machine, which all its containers share; empty if the system has none.

    Whether two processes also see the same file systems, only an attempt tells.
    """
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""
