"""A channel whose credentials can change: new calls use a new connection, running calls finish on the old one."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

import grpc

M = TypeVar("M")


@dataclass(slots=True, eq=False)
class _Connection:
    channel: grpc.aio.Channel
    calls: dict[tuple[str, str], Any] = field(default_factory=dict)
    """Multicallables by kind and method."""
    running: int = 0


class RenewedChannel(grpc.aio.Channel, Generic[M]):
    """
    Replaces the connection when credentials change; gRPC's own channels keep their credentials forever.

    Args:
        material: Returns the material of the credentials: the same object until it changes.
        dial: Opens a channel with it.
        metadata: Returns metadata to send with a call; called for each one.
    """

    def __init__(
        self,
        material: Callable[[], M],
        dial: Callable[[M], grpc.aio.Channel],
        *,
        metadata: Callable[[], tuple[tuple[str, str], ...]] = tuple,
    ) -> None:
        self._material = material
        self._dial = dial
        self._metadata = metadata
        self._current_material = material()
        self._connection = _Connection(dial(self._current_material))
        self._retired: set[_Connection] = set()
        self._closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self, grace: float | None = None) -> None:
        """
        Close the channel.

        Running calls, including those on retired connections, are cancelled after `grace` seconds.
        """
        self._closed = True
        for connection in (self._connection, *self._retired):
            await connection.channel.close(grace)

    def get_state(self, try_to_connect: bool = False) -> grpc.ChannelConnectivity:
        return self._current().channel.get_state(try_to_connect)

    async def wait_for_state_change(self, last_observed_state: grpc.ChannelConnectivity) -> None:
        await self._current().channel.wait_for_state_change(last_observed_state)

    async def channel_ready(self) -> None:
        await self._current().channel.channel_ready()

    def unary_unary(self, method: str, *args: Any, **options: Any) -> Any:
        return self._calling("unary_unary", method, args, options)

    def unary_stream(self, method: str, *args: Any, **options: Any) -> Any:
        return self._calling("unary_stream", method, args, options)

    def stream_unary(self, method: str, *args: Any, **options: Any) -> Any:
        return self._calling("stream_unary", method, args, options)

    def stream_stream(self, method: str, *args: Any, **options: Any) -> Any:
        return self._calling("stream_stream", method, args, options)

    def _calling(self, kind: str, method: str, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        def start(*call_args: Any, **call_options: Any) -> Any:
            connection = self._current()
            if (kind, method) not in connection.calls:
                connection.calls[kind, method] = getattr(connection.channel, kind)(method, *args, **options)
            metadata = (*(call_options.pop("metadata", None) or ()), *self._metadata())
            call = connection.calls[kind, method](*call_args, metadata=metadata, **call_options)
            connection.running += 1
            call.add_done_callback(partial(self._ended, connection))
            return call

        return start

    def _current(self) -> _Connection:
        if not self._closed and (material := self._material()) is not self._current_material:
            if self._connection.running:
                self._retired.add(self._connection)
            self._current_material, self._connection = material, _Connection(self._dial(material))
        return self._connection

    def _ended(self, connection: _Connection, _call: object) -> None:
        connection.running -= 1
        if not connection.running:
            self._retired.discard(connection)  # the last reference: gRPC closes a channel when it is garbage-collected
