"""The worker's end of the link. It never blocks: a message to a full socket is dropped."""

from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import zmq

from tlt_worker.link.messages import Down, Up, pack, unpack
from tlt_worker.link.pulse import Pulse
from tlt_worker.link.settings import UP_QUEUE_MESSAGES, LinkSettings


@dataclass(slots=True)
class WorkerEnd:
    """Sends messages down and receives messages up. Bound before the engine starts, so that nothing is lost."""

    settings: LinkSettings
    pulse: Pulse = field(init=False)
    """Counters of the engine's rounds."""
    socket_up: Any = field(init=False)
    _down: Any = field(init=False)

    def __post_init__(self) -> None:
        Path(self.settings.directory).mkdir(parents=True, exist_ok=True)
        self.pulse = Pulse(self.settings.pulse)
        context: Any = zmq.Context.instance()
        self.socket_up = context.socket(zmq.PULL)
        self.socket_up.set_hwm(UP_QUEUE_MESSAGES)
        self.socket_up.bind(self.settings.up)
        self._down = context.socket(zmq.PUSH)
        self._down.setsockopt(zmq.LINGER, 0)
        self._down.bind(self.settings.down)

    def send(self, message: Down) -> None:
        """Send a message, once the engine has sent its start report. Messages to a dead engine are dropped; `died`
        reports it.
        """
        # A send that waits for a dead peer would block the worker's event loop forever.
        with suppress(zmq.Again):
            self._down.send_multipart(pack(message), flags=zmq.NOBLOCK)

    def receive(self, timeout_s: float) -> Up | None:
        """Return the next message, or None after the timeout."""
        if not self.socket_up.poll(int(timeout_s * 1000)):
            return None
        return unpack(self.socket_up.recv_multipart())  # type: ignore[return-value] # the scheduler sends only Up

    def close(self) -> None:
        """Close both sockets and the pulse."""
        self.pulse.close()
        self.socket_up.close(0)
        self._down.close(0)
