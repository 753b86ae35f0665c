"""
Selects the engine's kernels: compiled ones on a CUDA device, the torch stand-in elsewhere.

Imports neither torch nor SGLang, since it decides what those find when they are imported.
"""

import ctypes
import os
import sys
from dataclasses import dataclass
from pathlib import Path

STANDIN_PATH = Path(__file__).parents[1] / "standin"
"""Contains the package `sgl_kernel`, which replaces the compiled one when it comes first on the path."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """The device an engine runs on."""

    kind: str
    """SGLang's name for it: `cuda` or `cpu`."""
    kernels: str

    def describe(self) -> str:
        """Return device and kernels as text, for the log and `EngineInfo`."""
        return f"{self.kind} ({self.kernels})"

    def variables(self) -> dict[str, str]:
        """Return the environment of the engine's processes."""
        if self.kind != "cpu":
            return {}
        inherited = os.environ.get("PYTHONPATH", "")
        return {
            "SGLANG_USE_CPU_ENGINE": "1",
            # Dynamo would compile small functions with a C++ compiler, which a plain image lacks.
            "TORCHDYNAMO_DISABLE": "1",
            "PYTHONPATH": os.pathsep.join(part for part in (str(STANDIN_PATH), inherited) if part),
        }

    def enter(self) -> None:
        """Add the stand-in to this process's own path, since SGLang's tokenizer side imports it too."""
        if self.kind == "cpu" and str(STANDIN_PATH) not in sys.path:
            sys.path.insert(0, str(STANDIN_PATH))


CUDA = Device(kind="cuda", kernels="sgl_kernel")
CPU = Device(kind="cpu", kernels="torch stand-in for sgl_kernel")


def detect() -> Device:
    """Return CUDA if its driver is installed and finds a device, else CPU."""
    return CUDA if gpu_memory() else CPU


def gpu_memory() -> list[int]:
    """Return the bytes of each CUDA device visible to this process; empty without a driver."""
    return [memory for memory, _ in _gpus()]


def gpu_generations() -> list[int]:
    """Return the major compute capability of each CUDA device visible to this process: 8 for an A100, 9 for an H100."""
    return [generation for _, generation in _gpus()]


_CAPABILITY_MAJOR = 75
"""CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR"""


def _gpus() -> list[tuple[int, int]]:
    # Query the driver directly: importing torch takes seconds, and it may be a build without CUDA.
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
