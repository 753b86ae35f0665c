"""The machine and package versions of a measurement."""

import os
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

PACKAGES = ("tlt-suite", "sglang", "torch", "ray", "trl", "grpcio", "redis")


def machine() -> str:
    """Describe processor, cores and memory."""
    model = platform.processor() or platform.machine()
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
            break
    memory_gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{model}, {len(os.sched_getaffinity(0))} cores, {memory_gib:.0f} GiB"


def commit() -> str:
    """Return the commit of the checkout that this package runs from, with a + if it has changes; "" outside of one."""
    here = Path(__file__).parent
    try:
        head = subprocess.run(
            ["git", "rev-parse", "--short=10", "HEAD"], cwd=here, capture_output=True, text=True, check=False
        )
        changes = subprocess.run(
            ["git", "status", "--porcelain", "-uno"], cwd=here, capture_output=True, text=True, check=False
        )
    except OSError:
        return ""
    return head.stdout.strip() + ("+" if changes.stdout else "") if head.returncode == 0 else ""


def versions() -> dict[str, str]:
    """Return the commit, and the versions of Python and of the packages that affect speed."""
    found = {"commit": commit(), "python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
