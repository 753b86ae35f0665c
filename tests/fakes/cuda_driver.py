"""A machine with GPUs that do not exist: a driver that lists them to processes started with `environment`."""

import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

GIB = 2**30
SOURCE = Path(__file__).with_suffix(".c")


@dataclass(frozen=True, slots=True, kw_only=True)
class FakeGpu:
    uuid: str
    name: str = "NVIDIA H100 80GB HBM3"
    memory: int = 80 * GIB
    generation: int = 9


def gpu(index: int, **differs: object) -> FakeGpu:
    return FakeGpu(**{"uuid": f"GPU-{index}0000000-feed-4bad-8ace-000000000000", **differs})  # type: ignore[arg-type]


def mig(index: int) -> FakeGpu:
    """A slice, as MIG makes seven of an H100."""
    uuid = f"MIG-{index}0000000-feed-5bad-8ace-000000000000"
    return FakeGpu(uuid=uuid, name="NVIDIA H100 80GB HBM3 MIG 1g.10gb", memory=10 * GIB)


@dataclass(frozen=True, slots=True, kw_only=True)
class FakeDriver:
    """A driver's library in a folder, and the devices that it finds."""

    folder: Path
    gpus: tuple[FakeGpu, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)

    def environment(self, visible: str | None = None) -> dict[str, str]:
        """What processes are started with; `visible` is their CUDA_VISIBLE_DEVICES, None: unset."""
        own = {key: value for key, value in os.environ.items() if key != "CUDA_VISIBLE_DEVICES"}
        described = (f"{each.uuid} {each.name.replace(' ', '_')} {each.memory} {each.generation}" for each in self.gpus)
        return {
            **own,
            "LD_LIBRARY_PATH": str(self.folder),
            "TLT_FAKE_GPUS": ",".join(described),
            **({} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}),
            **self.variables,
        }


def build(folder: Path) -> Path:
    """Compile the driver into a folder; without a compiler, skip the test."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("needs a C compiler, for the library of a CUDA driver")
    library = folder / "libcuda.so.1"
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o", library, SOURCE], check=True)
    return folder
