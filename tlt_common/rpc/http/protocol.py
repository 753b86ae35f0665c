"""HTTP connections with timeouts for requests and limits on the memory that clients can use."""

import asyncio
import json
from typing import Any, ClassVar, cast

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from tlt_common.errors import InvalidRequestError, OverloadedError, TltError
from tlt_common.rpc.descriptors import HTTP_SHARE, connections
from tlt_common.rpc.http.failures import content_of
from tlt_common.telemetry import metrics
from tlt_common.telemetry.log import get_logger

log = get_logger(__name__)

MAX_HEAD_BYTES = 64 * 2**10
"""Size of request line and headers, or of a chunk's extension and the headers after the last chunk."""
MAX_HEADERS = 128
"""Number of headers of a request."""
MAX_PIPELINED = 16
"""Requests that may arrive before the answer to the first has been sent."""
MAX_UNREAD_BYTES = 64 * 2**20
"""Bytes of a body that are dropped after the answer has been sent. A client that still sends when its connection closes
loses the answer."""
MAX_GATHERED_BYTES = 64 * 2**10


class GatheredWrites:
    """
    A transport that sends all writes of one event-loop pass at once: uvicorn writes a response's head and body
    separately, and a system call costs more than either.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._parts: list[bytes] = []
        self._size = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Send bytes soon, or immediately if there are many."""
        if not self._parts:
            self._loop.call_soon(self._flush)
        self._parts.append(data)
        self._size += len(data)
        if self._size >= MAX_GATHERED_BYTES:
            self._flush()

    def close(self) -> None:
        """Close the connection once everything written has been sent."""
        self._flush()
        self._transport.close()

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """Hand the connection over, with nothing left unsent."""
        self._flush()
        self._transport.set_protocol(protocol)

    def _flush(self) -> None:
        parts, self._parts, self._size = self._parts, [], 0
        if parts and not self._transport.is_closing():
            self._transport.write(b"".join(parts))


class TimedProtocol(HttpToolsProtocol):
    """
    A connection that is closed unless its first request arrives within `receive_s`, and each request with its body
    within as long after its first byte. uvicorn limits only the time between requests, so that clients that never
    complete one could occupy all connections.

    Requests with an oversized or malformed head get a JSON answer like other refused requests, and so does the first
    request of a connection above the maximum. If descriptors are about to run out, a connection is closed immediately.
    """

    receive_s: ClassVar[float]
    max_connections: ClassVar[int]
    affordable_connections: ClassVar[int]

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._deadline: asyncio.TimerHandle | None = None
        self._head_bytes = 0
        """Bytes received since the parser last reported the end of a head, or a piece of a body."""
        self._headers_size = self._headers_count = self._unread_bytes = 0
        self._refusal: tuple[int, TltError] | None = None
        self._is_surplus = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as uvicorn's
        super().connection_made(cast("asyncio.Transport", GatheredWrites(transport, self.loop)))
        self._is_surplus = len(self.connections) > self.max_connections
        if len(self.connections) > self.affordable_connections:
            metrics.HTTP_CONNECTIONS_REFUSED.inc()
            transport.abort()
        else:
            self._start()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop()
        super().connection_lost(exc)
        # The connection and its requests refer to each other: what was received would stay until the next collection.
        for cycle in (self.cycle, *(waiting for waiting, _ in self.pipeline)):
            if cycle is not None:
                cycle.body = bytearray()
        self.pipeline.clear()

    def data_received(self, data: bytes) -> None:
        self._head_bytes += len(data)
        super().data_received(data)
        if self._head_bytes > MAX_HEAD_BYTES and not self.transport.is_closing():
            self._refusal = 431, _too_large()
            self.send_400_response("")

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._headers_size = self._headers_count = self._unread_bytes = 0
        self._start()

    def on_url(self, url: bytes) -> None:
        super().on_url(url)
        self._note_head(len(url))

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers_count += 1
        self._note_head(len(name) + len(value))
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._head_bytes = 0
        if self._is_surplus:
            self._refuse(503, OverloadedError(f"more than {self.max_connections} connections are open, the maximum"))
        if len(self.pipeline) >= MAX_PIPELINED:
            self._refuse(
                400,
                InvalidRequestError(f"the connection has more than {MAX_PIPELINED} pipelined requests, the maximum"),
            )
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._head_bytes = 0
        if self.cycle.response_complete:
            self._unread_bytes += len(body)
            if self._unread_bytes > MAX_UNREAD_BYTES:
                self.transport.close()
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._head_bytes = 0
        super().on_message_complete()
        self._stop()

    def send_400_response(self, msg: str) -> None:
        """Answer a request that is refused before the application sees it, and close the connection."""
        status, error = self._refusal or (400, InvalidRequestError(f"{msg} Accepted: HTTP/1.1", field="request"))
        content = json.dumps(content_of(error, status)).encode()
        log.info("request_refused", status=status, error=error.message)
        head = f"content-type: application/json\r\ncontent-length: {len(content)}\r\nconnection: close\r\n\r\n"
        if self.cycle is None or self.cycle.response_complete:  # else the answer would be that of an earlier request
            self.transport.write(STATUS_LINE[status] + head.encode() + content)
        self.transport.close()

    def _note_head(self, size: int) -> None:
        self._headers_size += size
        if self._headers_size > MAX_HEAD_BYTES or self._headers_count > MAX_HEADERS:
            self._refuse(431, _too_large())

    def _refuse(self, status: int, error: TltError) -> None:
        """
        Raises:
            TltError: The error; it ends the parser, which calls `send_400_response`.
        """
        self._refusal = status, error
        raise error

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


def _too_large() -> InvalidRequestError:
    return InvalidRequestError(
        f"request line and headers are too large; the maximum is {MAX_HEAD_BYTES} bytes and {MAX_HEADERS} headers",
        field="headers",
    )


def timed(receive_s: float, max_connections: int | None = None) -> type[TimedProtocol]:
    """Return the protocol class of connections with these limits. None allows as many connections as descriptors."""
    affordable = connections(HTTP_SHARE)
    limits = {"receive_s": receive_s, "max_connections": max_connections or affordable}
    return type("TimedProtocol", (TimedProtocol,), {**limits, "affordable_connections": affordable})
