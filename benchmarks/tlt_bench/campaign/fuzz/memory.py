"""Memory of this process."""

import gc
from pathlib import Path

_PAGE_BYTES = 4096
_STATM = Path("/proc/self/statm")


def resident_bytes() -> int:
    """Return the resident memory of this process, in bytes, after a garbage collection; 0 without /proc."""
    gc.collect()
    return int(_STATM.read_text().split()[1]) * _PAGE_BYTES if _STATM.exists() else 0
