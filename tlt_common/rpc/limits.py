"""Limits of a server on messages, connections, and the concurrent use by one caller."""

from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tlt_common.errors import InvalidRequestError, OverloadedError
from tlt_common.rpc.channel import MESSAGE_BYTES
from tlt_common.rpc.descriptors import GRPC_SHARE, connections

HANDSHAKE_S = 10
"""Seconds for TLS and HTTP/2 handshakes. A connection that takes longer is closed."""
IDLE_S = 900
"""Seconds after which a connection without calls is closed; clients reconnect by themselves."""
MAX_FIELDS = 2**16
"""Entries of a message's lists."""
RETRY_AFTER_S = 1.0
"""Retry delay sent with refusals, in seconds: a queue that is full has room again as soon as some requests have ended,
and clients of the suite wait as long as they are told."""
_LENGTH_DELIMITED, _MORE = 2, 0x80
"""Wire type of submessages, texts and packed lists; the bit of a varint that says that another byte follows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of one server. A caller is the holder of a token. Without tokens, all callers count as one."""

    message_bytes: int = MESSAGE_BYTES
    """Maximum size of a request message."""
    calls: int | None = None
    """Maximum number of running calls per caller; None means no limit."""
    stream_bytes: int | None = None
    """Maximum bytes that a caller's running calls may have streamed to the server; None means no limit."""
    connections: int | None = None
    """Maximum number of connections; None allows as many as descriptors. Further ones are closed immediately."""
    retry_after_s: float = RETRY_AFTER_S
    """Retry delay sent with refusals."""

    def options(self) -> list[tuple[str, int]]:
        """Return gRPC's options."""
        options = [
            ("grpc.max_receive_message_length", self.message_bytes),
            ("grpc.server_handshake_timeout_ms", HANDSHAKE_S * 1000),
            ("grpc.max_allowed_incoming_connections", connections(GRPC_SHARE, self.connections)),
        ]
        if self.calls is not None:
            options.append(("grpc.max_concurrent_streams", self.calls))
        if self.connections is not None:
            options.append(("grpc.max_connection_idle_ms", IDLE_S * 1000))
        return options


def require_few_fields(encoded: bytes) -> None:
    """
    Check the number of entries in a message's lists before it is decoded: two encoded bytes can become an entry of a
    hundred.

    Raises:
        InvalidRequestError: There are more than `MAX_FIELDS`.
    """
    if len(encoded) <= 2 * MAX_FIELDS:
        return
    place, count = 0, 0
    while place < len(encoded) and encoded[place] & 7 == _LENGTH_DELIMITED and encoded[place] < _MORE:
        place, size, shift = place + 1, 0, 0
        while place < len(encoded):
            byte = encoded[place]
            size, shift, place = size | (byte & 0x7F) << shift, shift + 7, place + 1
            if byte < _MORE:
                break
        place, count = place + size, count + 1
        if count > MAX_FIELDS:
            raise InvalidRequestError(f"the message has more than {MAX_FIELDS} entries, the maximum", field="request")


class Usage:
    """Current usage of a server by its callers."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._calls: Counter[str] = Counter()
        self._bytes: Counter[str] = Counter()

    @contextmanager
    def call(self, caller: str) -> Iterator[None]:
        """
        Count one call within the block.

        Raises:
            OverloadedError: The caller has too many running calls.
        """
        if self._limits.calls is not None and self._calls[caller] >= self._limits.calls:
            raise OverloadedError(
                f"{self._calls[caller]} calls of this caller are running; the maximum is {self._limits.calls}; "
                f"retry after {self._limits.retry_after_s:g} s",
                retry_after_s=self._limits.retry_after_s,
            )
        self._calls[caller] += 1
        try:
            yield
        finally:
            self._calls[caller] -= 1
            if not self._calls[caller]:
                del self._calls[caller]

    async def metered(self, caller: str, messages: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
        """
        Yield the encoded messages of a call, counting their bytes until it ends.

        Raises:
            InvalidRequestError: The call alone streamed more bytes than a caller may.
            OverloadedError: The caller's calls together have streamed too many bytes.
        """
        mine, limit = 0, self._limits.stream_bytes
        try:
            async for message in messages:
                size = len(message)
                mine += size
                self._bytes[caller] += size
                if limit is not None and mine > limit:
                    raise InvalidRequestError(
                        f"the call streamed {mine} bytes; the maximum is {limit}", field="request"
                    )
                if limit is not None and self._bytes[caller] > limit:
                    raise OverloadedError(
                        f"the calls of this caller streamed {self._bytes[caller]} bytes; the maximum is "
                        f"{limit} at a time; retry after {self._limits.retry_after_s:g} s",
                        retry_after_s=self._limits.retry_after_s,
                    )
                yield message
        finally:
            self._bytes[caller] -= mine
            if not self._bytes[caller]:
                del self._bytes[caller]
