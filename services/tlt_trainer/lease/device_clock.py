"""
Measures the compute time of the device.

A GPU still computes after the call that launched its kernels has returned.
"""

import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol, cast

import torch


class DeviceClock(Protocol):
    """Sums the seconds of measured blocks. Everything except `seconds` belongs to the device's thread."""

    @property
    def seconds(self) -> float:
        """Seconds measured so far; never decreases. Any thread may read it."""
        ...

    def measure(self) -> AbstractContextManager[None]:
        """Return a context manager that measures its block, even if it raises."""
        ...

    def settle(self) -> None:
        """Wait until all measured blocks have been computed, and add their time."""
        ...


class HostClock:
    """Clock for a CPU: the block's own duration."""

    def __init__(self, now: Callable[[], float] = time.perf_counter) -> None:
        self._now = now
        self._seconds = 0.0

    @property
    def seconds(self) -> float:
        return self._seconds

    @contextmanager
    def measure(self) -> Iterator[None]:
        began_s = self._now()
        try:
            yield
        finally:
            self._seconds += self._now() - began_s

    def settle(self) -> None:
        pass


class Event(Protocol):
    """The used part of torch.cuda.Event."""

    def record(self) -> None:
        """Record the time at which the device completes all earlier work."""
        ...

    def query(self) -> bool:
        """Query whether the device has reached this event."""
        ...

    def synchronize(self) -> None:
        """Wait until the device reaches this event."""
        ...

    def elapsed_time(self, end_event: Any) -> float:
        """Return the milliseconds from this event to a later one. Both must have been reached."""
        ...


class CudaClock:
    """
    Clock for a GPU: the time between two events on the stream, read once the device has passed both.

    Blocks are added late, without waiting: waiting at the end of each would keep the host from preparing the next one.
    """

    def __init__(self, event: Callable[[], Event]) -> None:
        self._event = event
        self._seconds = 0.0
        self._pending: deque[tuple[Event, Event]] = deque()

    @property
    def seconds(self) -> float:
        return self._seconds

    @contextmanager
    def measure(self) -> Iterator[None]:
        self._count()
        begin, end = self._event(), self._event()
        begin.record()
        try:
            yield
        finally:
            end.record()
            self._pending.append((begin, end))

    def settle(self) -> None:
        if self._pending:
            self._pending[-1][1].synchronize()
        self._count()

    def _count(self) -> None:
        while self._pending and self._pending[0][1].query():
            begin, end = self._pending.popleft()
            self._seconds += begin.elapsed_time(end) / 1000.0


def call_clock(device: torch.device) -> Callable[[], float]:
    """
    Return the clock, in seconds, by which calls are sized. It must be read in the device's thread.

    On a CPU this is the thread's own CPU time: with wall time, steps would become small if the core is shared, for
    example with the RL trainer, and small steps learn less per second from cut windows. Whoever takes the device back
    needs the core, too, and then gets it.
    """
    return time.perf_counter if device.type == "cuda" else time.thread_time


def clock_of(device: torch.device) -> DeviceClock:
    """Return the clock of a device, which must be the measuring thread's current device."""
    return CudaClock(_cuda_event) if device.type == "cuda" else HostClock()


def _cuda_event() -> Event:
    return cast("Event", torch.cuda.Event(enable_timing=True))  # type: ignore[no-untyped-call]
