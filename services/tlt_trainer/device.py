"""The one thread that computes. What runs on it is short, so that the device can be taken back between two calls."""

import asyncio
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, Protocol, TypeVar

import torch

NICEST = 19

P = ParamSpec("P")
T = TypeVar("T")


def torch_device(name: str) -> torch.device:
    """Resolve the configured name; "auto" takes a GPU if there is one."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu") if name == "auto" else torch.device(name)


class Device(Protocol):
    """Where computing happens, one call after the other."""

    @property
    def torch(self) -> torch.device:
        """As torch names it."""
        ...

    async def run(self, call: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a call after those before it. Cancelling the caller does not stop a call that has begun."""
        ...

    async def free(self) -> None:
        """Wait until every call made so far has ended, whether or not somebody still waits for it."""
        ...


class DeviceThread:
    """
    A device and its thread.

    Only this thread is made nice, not the process: a Preempt must be answered at full priority.
    """

    def __init__(self, device: torch.device, *, threads: int, nice: int) -> None:
        self._torch = device
        self._executor = ThreadPoolExecutor(1, "device", initializer=_prepare, initargs=(threads, nice))

    @property
    def torch(self) -> torch.device:
        return self._torch

    async def run(self, call: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._executor, lambda: call(*args, **kwargs))

    async def free(self) -> None:
        await self.run(self._synchronize)

    def close(self) -> None:
        """Wait for the last call and end the thread. Blocks."""
        self._executor.shutdown(wait=True, cancel_futures=True)

    def _synchronize(self) -> None:
        if self._torch.type == "cuda":
            torch.cuda.synchronize(self._torch)


def _prepare(threads: int, nice: int) -> None:
    torch.set_num_threads(threads)
    # On Linux priorities belong to threads; those torch starts inherit this one's.
    thread = threading.get_native_id()
    os.setpriority(os.PRIO_PROCESS, thread, min(NICEST, os.getpriority(os.PRIO_PROCESS, thread) + nice))
