"""From the link to the worker's event loop."""

import asyncio
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import Generic, TypeVar

import zmq

from tlt_common.domain.hidden import HiddenFrame
from tlt_common.domain.tuner import RoundReport
from tlt_common.telemetry import metrics
from tlt_worker.engine.link import Dropped, WorkerEnd

T = TypeVar("T")

MAX_FRAMES = 512
MAX_REPORTS = 64

_POLL_S = 0.2


class Outlet(Generic[T]):
    """A bounded queue whose oldest element leaves when nobody takes. Belongs to one loop."""

    def __init__(self, most: int, *, on_drop: Callable[[], None] = lambda: None) -> None:
        self._items: deque[T] = deque()
        self._most = most
        self._came = asyncio.Event()
        self._on_drop = on_drop

    def put(self, item: T) -> None:
        """Add; if full, drop the oldest and say so."""
        if len(self._items) == self._most:
            self._items.popleft()
            self._on_drop()
        self._items.append(item)
        self._came.set()

    async def take(self) -> AsyncIterator[T]:
        """Yield what comes, for ever."""
        while True:
            while self._items:
                yield self._items.popleft()
            self._came.clear()
            await self._came.wait()


class Pump:
    """A thread that reads the link, so that frames are decoded beside the loop and not on it."""

    def __init__(self, link: WorkerEnd, loop: asyncio.AbstractEventLoop) -> None:
        self.frames: Outlet[HiddenFrame] = Outlet(MAX_FRAMES, on_drop=metrics.FRAMES_DROPPED.labels(where="pump").inc)
        self.reports: Outlet[RoundReport] = Outlet(MAX_REPORTS)
        self._link = link
        self._loop = loop
        self._is_closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="tlt-engine-pump", daemon=True)

    def start(self) -> None:
        """Begin to read."""
        self._thread.start()

    def close(self) -> None:
        """Stop reading. The link may be closed afterwards."""
        self._is_closing.set()
        self._thread.join(timeout=10 * _POLL_S)

    def _run(self) -> None:
        while not self._is_closing.is_set() and not self._loop.is_closed():
            try:
                message = self._link.receive(_POLL_S)
            except zmq.ZMQError:
                return  # the link was closed under us
            if isinstance(message, HiddenFrame):
                self._loop.call_soon_threadsafe(self.frames.put, message)
            elif isinstance(message, RoundReport):
                self._loop.call_soon_threadsafe(self.reports.put, message)
            elif isinstance(message, Dropped):
                metrics.FRAMES_DROPPED.labels(where="engine").inc(message.count)
