"""
Which kernels the engine runs on: compiled ones on a CUDA device, the torch stand-in elsewhere.

Nothing here imports torch or SGLang, since it decides what those will find when they are imported.
"""

import ctypes
import os
import sys
from dataclasses import dataclass
from pathlib import Path

STANDIN_PATH = Path(__file__).parent / "standin"
"""Holds the package `sgl_kernel`, found before the compiled one when it comes first on the path."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """Where the engine runs."""

    kind: str
    """SGLang's name: `cuda` or `cpu`."""
    kernels: str

    def describe(self) -> str:
        """Return device and kernels in words, for the log and `EngineInfo`."""
        return f"{self.kind} ({self.kernels})"

    def variables(self) -> dict[str, str]:
        """Return the environment of the engine's processes."""
        if self.kind != "cpu":
            return {}
        inherited = os.environ.get("PYTHONPATH", "")
        return {
            "SGLANG_USE_CPU_ENGINE": "1",
            # Dynamo would compile small functions with a C++ compiler that a plain image does not have.
            "TORCHDYNAMO_DISABLE": "1",
            "PYTHONPATH": os.pathsep.join(part for part in (str(STANDIN_PATH), inherited) if part),
        }

    def enter(self) -> None:
        """Put the stand-in on this process's own path: the tokenizer side of SGLang imports it too."""
        if self.kind == "cpu" and str(STANDIN_PATH) not in sys.path:
            sys.path.insert(0, str(STANDIN_PATH))


CUDA = Device(kind="cuda", kernels="sgl_kernel")
CPU = Device(kind="cpu", kernels="torch stand-in for sgl_kernel")


def detect() -> Device:
    """Return CUDA if its driver is there and sees a device, else CPU."""
    return CUDA if gpu_memory() else CPU


def gpu_memory() -> list[int]:
    """Bytes of each CUDA device this process sees; empty without a driver."""
    return [memory for memory, _ in _gpus()]


def gpu_generations() -> list[int]:
    """Major compute capability of each CUDA device this process sees: 8 for an A100, 9 for an H100."""
    return [generation for _, generation in _gpus()]


_CAPABILITY_MAJOR = 75
"""CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR"""


def _gpus() -> list[tuple[int, int]]:
    # The driver is asked directly: importing torch takes seconds, and it may be a build without CUDA.
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return []
    count = ctypes.c_int(0)
    if driver.cuInit(0) != 0 or driver.cuDeviceGetCount(ctypes.byref(count)) != 0:
        return []
    found = []
    for index in range(count.value):
        device, size, major = ctypes.c_int(0), ctypes.c_size_t(0), ctypes.c_int(0)
        driver.cuDeviceGet(ctypes.byref(device), index)
        driver.cuDeviceTotalMem_v2(ctypes.byref(size), device)
        driver.cuDeviceGetAttribute(ctypes.byref(major), _CAPABILITY_MAJOR, device)
        found.append((size.value, major.value))
    return found
