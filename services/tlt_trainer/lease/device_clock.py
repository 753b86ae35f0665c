"""How long the device computed. A GPU still computes when the call that launched its kernels has returned."""

import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol, cast

import torch


class DeviceClock(Protocol):
    """Counts the seconds of the blocks it measures. Everything but `seconds` belongs to the device's thread."""

    @property
    def seconds(self) -> float:
        """Seconds counted so far; only increases. May be read by any thread."""
        ...

    def measure(self) -> AbstractContextManager[None]:
        """Return a context manager whose block is counted, also when it raises."""
        ...

    def settle(self) -> None:
        """Wait until all measured blocks have been computed, and count them."""
        ...


class HostClock:
    """For a CPU: the block's own duration."""

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
    """The part of torch.cuda.Event that is used."""

    def record(self) -> None:
        """Note the time at which the device gets here, after all it was given before."""
        ...

    def query(self) -> bool:
        """Return whether the device got here."""
        ...

    def synchronize(self) -> None:
        """Wait until the device gets here."""
        ...

    def elapsed_time(self, end_event: Any) -> float:
        """Return the milliseconds from this event to a later one. Both must have been reached."""
        ...


class CudaClock:
    """
    For a GPU: the time between two events on the stream, read once the device has passed both.

    Blocks are counted late rather than waited for: waiting at the end of each would stop the host from preparing the
    next one meanwhile.
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
    Return the clock, in seconds, by which calls are sized, to be read in the device's thread.

    On a CPU the thread's own time: steps sized by what passes while other processes have the core would become small
    where the core is shared, as while a trainer on the same machine learns, and small steps learn less per second, from
    windows that were cut. Whoever takes the device back from such a step needs the core, too, and then gets it.
    """
    return time.perf_counter if device.type == "cuda" else time.thread_time


def clock_of(device: torch.device) -> DeviceClock:
    """Return the clock of a device, which must be the current one of the thread that measures."""
    return CudaClock(_cuda_event) if device.type == "cuda" else HostClock()


def _cuda_event() -> Event:
    return cast("Event", torch.cuda.Event(enable_timing=True))  # type: ignore[no-untyped-call]
