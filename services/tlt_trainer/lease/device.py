"""The compute thread. Its calls are short, so that the device can be taken back between two of them."""

import asyncio
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import ParamSpec, Protocol, TypeVar

import torch

from tlt_trainer.lease.device_clock import call_clock, clock_of

NICEST = 19

P = ParamSpec("P")
T = TypeVar("T")


def torch_device(name: str) -> torch.device:
    """Resolve the configured device name. "auto" uses a GPU if there is one."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu") if name == "auto" else torch.device(name)


def limit_memory(device: torch.device, share: float | None) -> None:
    """Limit this process to a fraction of the GPU's memory, so that it fails first if memory is short."""
    if device.type == "cuda" and share is not None:
        torch.cuda.set_per_process_memory_fraction(share, device)


def wait_for(device: torch.device) -> None:
    """Wait until a GPU has completed this process's work."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def release_memory(device: torch.device) -> None:
    """Release unused memory that the process holds."""
    if device.type == "cuda":
        torch.cuda.empty_cache()


class TrainingDevice(Protocol):
    """Runs computations one at a time."""

    @property
    def torch(self) -> torch.device:
        """The torch device."""
        ...

    @property
    def trained_s(self) -> float:
        """Seconds computed inside `training`, as far as known; complete after `free`. Never decreases."""
        ...

    def now(self) -> float:
        """Return the time on the clock by which calls are sized, in seconds. Only for use inside a call of `run`."""
        ...

    async def run(self, call: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a call after all earlier ones. Cancelling the caller does not stop a call that has started."""
        ...

    def training(self) -> AbstractContextManager[None]:
        """Return a context manager that adds its block to `trained_s`. Only for use inside a call of `run`."""
        ...

    async def free(self) -> None:
        """Wait until all calls made so far have ended, including those whose caller was cancelled."""
        ...


class DeviceThread:
    """
    A device and its thread.

    Only this thread is niced, not the process: a Preempt must be answered at full priority.
    """

    def __init__(self, device: torch.device, *, threads: int, nice: int) -> None:
        self._torch = device
        self._clock = clock_of(device)
        self._call_clock = call_clock(device)
        self._executor = ThreadPoolExecutor(1, "device", initializer=_prepare, initargs=(device, threads, nice))

    @property
    def torch(self) -> torch.device:
        return self._torch

    @property
    def trained_s(self) -> float:
        return self._clock.seconds

    def now(self) -> float:
        return self._call_clock()

    async def run(self, call: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._executor, lambda: call(*args, **kwargs))

    def training(self) -> AbstractContextManager[None]:
        return self._clock.measure()

    async def free(self) -> None:
        await self.run(self._synchronize)

    def close(self) -> None:
        """Wait for the running call and end the thread. Blocks."""
        self._executor.shutdown(wait=True, cancel_futures=True)

    def _synchronize(self) -> None:
        wait_for(self._torch)
        self._clock.settle()


def _prepare(device: torch.device, threads: int, nice: int) -> None:
    if device.type == "cuda":
        torch.cuda.set_device(device)  # of this thread; the clock's events belong to its current stream
    torch.set_num_threads(threads)
    make_nicer(nice)


def make_nicer(nice: int) -> None:
    """Raise the nice value of this thread. On Linux, nice values belong to threads, and torch's threads inherit it."""
    thread = threading.get_native_id()
    os.setpriority(os.PRIO_PROCESS, thread, min(NICEST, os.getpriority(os.PRIO_PROCESS, thread) + nice))
