"""The scheduler process's end of the link. It never blocks: messages that do not fit are dropped and counted."""

from dataclasses import dataclass, field
from typing import Any

import zmq

from tlt_common.domain.hidden import EncodedFrame
from tlt_common.domain.tuner import RoundReport
from tlt_worker.link.messages import Down, Dropped, Up, pack, unpack
from tlt_worker.link.pulse import Pulse
from tlt_worker.link.settings import UP_QUEUE_MESSAGES, LinkSettings

NOTHING_DROPPED = Dropped(frames=0, windows=0)


@dataclass(slots=True)
class SchedulerEnd:
    """Sends messages up and receives messages down, without blocking."""

    settings: LinkSettings
    dropped: Dropped = NOTHING_DROPPED
    """Counts of messages dropped since the worker last received them."""
    _pulse: Pulse = field(init=False)
    _up: Any = field(init=False)
    _down: Any = field(init=False)

    def __post_init__(self) -> None:
        self._pulse = Pulse(self.settings.pulse)
        context: Any = zmq.Context.instance()
        self._up = context.socket(zmq.PUSH)
        self._up.set_hwm(UP_QUEUE_MESSAGES)
        self._up.setsockopt(zmq.LINGER, 0)
        self._up.connect(self.settings.up)
        self._down = context.socket(zmq.PULL)
        self._down.connect(self.settings.down)

    def beat(self) -> None:
        """Count a round that was processed."""
        self._pulse.beat()

    def compile_begins(self) -> None:
        """Count a function or kernel whose compilation starts."""
        self._pulse.compile_begins()

    def compile_ends(self) -> None:
        """Record that nothing is being compiled."""
        self._pulse.compile_ends()

    def send(self, message: Up) -> bool:
        """
        Send a message, or drop and count it if the link is full. Return whether it was sent. The count is sent once
        there is space again.
        """
        if not self._sent(message):
            self.dropped = Dropped(
                frames=self.dropped.frames + isinstance(message, EncodedFrame),
                windows=self.dropped.windows + (len(message.arms) if isinstance(message, RoundReport) else 0),
            )
            return False
        if self.dropped != NOTHING_DROPPED and self._sent(self.dropped):
            self.dropped = NOTHING_DROPPED
        return True

    def _sent(self, message: Up) -> bool:
        try:
            self._up.send_multipart(pack(message), flags=zmq.NOBLOCK, copy=False)
        except zmq.Again:
            return False
        return True

    def receive(self) -> list[Down]:
        """Return the messages received since the last call."""
        messages: list[Down] = []
        while self._down.poll(0):
            messages.append(unpack(self._down.recv_multipart()))  # type: ignore[arg-type] # the worker sends only Down
        return messages

    def close(self) -> None:
        """Close both sockets and the pulse; undelivered messages are lost."""
        self._pulse.close()
        self._up.close(0)
        self._down.close(0)
