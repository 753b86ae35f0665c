"""Reads the link on a separate thread."""

import threading

import zmq

from tlt_common.domain.hidden import EncodedFrame
from tlt_common.domain.tuner import RoundReport
from tlt_common.telemetry import metrics
from tlt_worker.engine.queue import BoundedQueue
from tlt_worker.link.messages import Dropped
from tlt_worker.link.worker_end import WorkerEnd

MAX_REPORTS = 64
"""Maximum number of reports queued for the worker, about half a minute's worth."""

_POLL_S = 0.2


class LinkReader:
    """
    Moves messages from the link into bounded queues, off the event loop, so that the link is drained even while the
    loop is busy. A message that does not fit into its queue is dropped and counted, as the scheduler does when the link
    is full.
    """

    def __init__(self, link: WorkerEnd, *, queue_bytes: int) -> None:
        self.frames: BoundedQueue[EncodedFrame] = BoundedQueue(
            queue_bytes, size_of=lambda frame: frame.size_bytes, on_drop=lambda _: _count(Dropped(frames=1, windows=0))
        )
        self.reports: BoundedQueue[RoundReport] = BoundedQueue(
            MAX_REPORTS,
            size_of=lambda _: 1,
            on_drop=lambda report: _count(Dropped(frames=0, windows=len(report.arms))),
        )
        self._link = link
        self._is_closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="tlt-link-reader", daemon=True)

    def start(self) -> None:
        """Start reading."""
        self._thread.start()

    def close(self) -> None:
        """Stop reading. The link may be closed afterwards."""
        self._is_closing.set()
        self._thread.join(timeout=10 * _POLL_S)

    def _run(self) -> None:
        while not self._is_closing.is_set():
            try:
                message = self._link.receive(_POLL_S)
            except zmq.ZMQError:
                return  # the link was closed meanwhile
            match message:
                case EncodedFrame():
                    self.frames.put(message)
                case RoundReport():
                    self.reports.put(message)
                case Dropped():
                    _count(message)


def _count(dropped: Dropped) -> None:
    metrics.FRAMES_DROPPED.labels(reason="full").inc(dropped.frames)
    metrics.WINDOWS_DROPPED.inc(dropped.windows)
