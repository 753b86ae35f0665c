"""Properties of the machine that this process runs on."""

from functools import cache
from pathlib import Path

_BFLOAT16 = {"avx512_bf16", "amx_bf16", "bf16"}
"""Flags of Linux, the last one on Arm."""


@cache
def multiplies_bfloat16() -> bool:
    """
    Return whether the CPU has bfloat16 multiplication: AVX512-BF16, AMX, or Arm.

    Others emulate it, 8 to 20 times slower than float32. An unknown CPU counts as one of those.
    """
    try:
        info = Path("/proc/cpuinfo").read_text()
    except OSError:
        return False
    return not _BFLOAT16.isdisjoint(info.split())
