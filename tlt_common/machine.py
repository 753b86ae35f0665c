"""The machine this process runs on."""

from functools import cache
from pathlib import Path

_BFLOAT16 = {"avx512_bf16", "amx_bf16", "bf16"}
"""Flags of Linux, the last one on Arm."""


@cache
def multiplies_bfloat16() -> bool:
    """
    Return whether the CPU multiplies bfloat16: with AVX512-BF16 or AMX, or on Arm.

    Others emulate it, 8 to 20 times as slow as float32. A CPU that cannot be read counts as one of those.
    """
    try:
        info = Path("/proc/cpuinfo").read_text()
    except OSError:
        return False
    return not _BFLOAT16.isdisjoint(info.split())
