"""
Selects the engine's kernels: compiled ones on a CUDA device, the torch stand-in elsewhere.

Imports neither torch nor SGLang, since it prepares the environment for their import.
"""

import os
import sys
from dataclasses import dataclass, replace
from pathlib import Path

from tlt_common.machine import multiplies_bfloat16
from tlt_worker.capacity.attention import AMPERE
from tlt_worker.capacity.profile import Accelerator
from tlt_worker.hardware.cuda import gpus

STANDIN_PATH = Path(__file__).parents[1] / "standin"
"""Contains the package `sgl_kernel`, which replaces the compiled one when it comes first on the path."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """The device an engine runs on."""

    kind: str
    """SGLang's name for the device: `cuda` or `cpu`."""
    kernels: str
    generation: int = 0
    """Major compute capability of the oldest visible GPU."""

    @property
    def accelerator(self) -> Accelerator:
        """Properties of the device for its profile."""
        if self.kind == "cpu":
            return Accelerator(kind=self.kind, dtype="bfloat16" if multiplies_bfloat16() else "float32")
        dtype = "float16" if self.generation < AMPERE else "bfloat16"
        return Accelerator(kind=self.kind, generation=self.generation, dtype=dtype)

    def describe(self) -> str:
        """Return a description of device and kernels, for the log and `EngineInfo`."""
        return f"{self.kind} ({self.kernels})"

    def variables(self) -> dict[str, str]:
        """Return the environment variables of the engine's processes."""
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
        """Add the stand-in to this process's import path, since SGLang's tokenizer side imports it, too."""
        if self.kind == "cpu" and str(STANDIN_PATH) not in sys.path:
            sys.path.insert(0, str(STANDIN_PATH))


CUDA = Device(kind="cuda", kernels="sgl_kernel")
CPU = Device(kind="cpu", kernels="torch stand-in for sgl_kernel")


def detect() -> Device:
    """
    Return CUDA if its driver is installed and finds a device, otherwise CPU.

    Raises:
        ConfigError: See `cuda.gpus`.
    """
    found = gpus()
    return replace(CUDA, generation=min(gpu.generation for gpu in found)) if found else CPU


def gpu_memory() -> list[int]:
    """Return the bytes of each CUDA device visible to this process; empty without a driver."""
    return [gpu.memory for gpu in gpus()]
