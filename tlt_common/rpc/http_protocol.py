"""HTTP connections whose requests must arrive in time."""

import asyncio
from typing import Any, ClassVar

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol


class TimedProtocol(HttpToolsProtocol):
    """
    A connection that is closed unless its first request arrives within `receive_s`, and each request with its body
    within as long after its first byte. uvicorn limits only the time between requests, so that clients which never
    complete one would hold connections until all are taken.
    """

    receive_s: ClassVar[float]

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as uvicorn's
        super().connection_made(transport)
        self._start()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop()
        super().connection_lost(exc)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._start()

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._stop()

    def _start(self) -> None:
        self._stop()
        self._deadline = self.loop.call_later(self.receive_s, self._expire)

    def _stop(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _expire(self) -> None:
        if self.flow.read_paused:  # the server is late, not the client: it has not read what was sent
            self._start()
        elif not self.transport.is_closing():
            self.transport.close()


def timed(receive_s: float) -> type[TimedProtocol]:
    """Return the protocol of connections with this limit."""
    return type("TimedProtocol", (TimedProtocol,), {"receive_s": receive_s})
