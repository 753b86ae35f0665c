"""
The GPUs that the CUDA driver exposes to this process.

Queries the driver directly: importing torch takes seconds, and it may be a build without CUDA.
"""

import ctypes
import os
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

from tlt_common.errors import ConfigError

VISIBLE = "CUDA_VISIBLE_DEVICES"
RUNTIME = "nvidia-cuda-runtime"
"""Package whose version is that of the CUDA that torch was built for."""
_NO_DEVICE, _STUB_LIBRARY = 100, 34
_CAPABILITY_MAJOR = 75
"""CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR"""
_NAME_BYTES = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """A GPU, or a MIG slice of one."""

    name: str
    memory: int
    """Memory in bytes."""
    generation: int
    """Major compute capability: 8 for an A100, 9 for an H100."""

    @property
    def is_slice(self) -> bool:
        """Whether it is a MIG slice."""
        return " MIG " in self.name


def named(value: str | None) -> tuple[str, ...] | None:
    """
    Return the devices named by a value of CUDA_VISIBLE_DEVICES: indices, GPU-UUIDs or MIG-UUIDs.

    None stands for an unset variable, which makes all devices visible. As in the driver, the list ends at the first
    entry that names no device, such as -1.
    """
    if value is None:
        return None
    names: list[str] = []
    for name in value.split(","):
        if name.strip().lower() in {"", "none", "void", "nodevfiles"} or name.strip().startswith("-"):
            break
        names.append(name.strip())
    return tuple(names)


def has_slices(names: tuple[str, ...] | None) -> bool:
    """Return whether any named device is a MIG slice. A process then sees the first device only."""
    return any(name.startswith("MIG-") for name in names or ())


def gpus() -> list[Gpu]:
    """
    Return the GPUs visible to this process; empty without a driver or without a GPU.

    Raises:
        ConfigError: The driver is too old or does not start, or does not find a device that CUDA_VISIBLE_DEVICES names.
    """
    names = named(os.environ.get(VISIBLE))
    driver = None if names == () else _driver()
    if driver is None:
        return []
    code = driver.cuInit(0)
    if code == _STUB_LIBRARY:
        return []
    if code not in {0, _NO_DEVICE}:
        raise ConfigError(
            f"the CUDA driver does not start: {_error_name(driver, code)} ({code}); repair it, or set {VISIBLE} to an "
            "empty string, which runs engines on the CPU",
        )
    found = [] if code else _devices(driver)
    _require_named(names, len(found))
    if found:
        _require_version(driver)
    return found


def _driver() -> ctypes.CDLL | None:
    try:
        return ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None


def _error_name(driver: ctypes.CDLL, code: int) -> str:
    name = ctypes.c_char_p()
    driver.cuGetErrorName(code, ctypes.byref(name))
    return name.value.decode() if name.value else "unknown error"


def _devices(driver: ctypes.CDLL) -> list[Gpu]:
    count = ctypes.c_int(0)
    driver.cuDeviceGetCount(ctypes.byref(count))
    found = []
    for index in range(count.value):
        device, size, major = ctypes.c_int(0), ctypes.c_size_t(0), ctypes.c_int(0)
        name = ctypes.create_string_buffer(_NAME_BYTES)
        driver.cuDeviceGet(ctypes.byref(device), index)
        driver.cuDeviceGetName(name, _NAME_BYTES, device)
        driver.cuDeviceTotalMem_v2(ctypes.byref(size), device)
        driver.cuDeviceGetAttribute(ctypes.byref(major), _CAPABILITY_MAJOR, device)
        found.append(Gpu(name=name.value.decode(errors="replace"), memory=size.value, generation=major.value))
    return found


def _require_named(names: tuple[str, ...] | None, found: int) -> None:
    if names is None:
        return
    expected = 1 if has_slices(names) else len(names)
    if found < expected or len(set(names)) < len(names):
        raise ConfigError(
            f"{VISIBLE} is {','.join(names)!r}, of which the CUDA driver finds {found}; accepted: different devices of "
            "this machine, by index or UUID (`nvidia-smi -L` lists them), or an empty string for none",
        )


def _require_version(driver: ctypes.CDLL) -> None:
    supported = ctypes.c_int(0)
    driver.cuDriverGetVersion(ctypes.byref(supported))
    try:
        needed = int(version(RUNTIME).split(".")[0])
    except PackageNotFoundError:
        return
    if supported.value // 1000 < needed:
        raise ConfigError(
            f"the CUDA driver supports CUDA {supported.value // 1000}.{supported.value % 1000 // 10}, but torch was "
            f"built for CUDA {needed}; install a driver for CUDA {needed}, or set {VISIBLE} to an empty string, which "
            "runs engines on the CPU",
        )
