"""The gateways that a client may call. They are replicas: any of them can serve or continue any request."""

from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Any

import grpc

from tlt_common.errors import ConfigError, OverloadedError, TltError, UnavailableError
from tlt_common.rpc.endpoint import connect_endpoint
from tlt_common.rpc.errors import is_transient
from tlt_common.wire import rollout as wire


class Gateways:
    """
    One channel per endpoint. All calls go to one of them until it fails.

    A DNS name with several addresses is one endpoint: gRPC connects to one of them, and to another when it is lost.
    """

    def __init__(self, endpoints: str | Sequence[str], **options: Any) -> None:
        """
        Create the channels. Options are those of `connect_endpoint`.

        Raises:
            ConfigError: No endpoint is given, or an option is invalid.
        """
        self.endpoints = (endpoints,) if isinstance(endpoints, str) else tuple(endpoints)
        if not self.endpoints:
            raise ConfigError("endpoint is empty; accepted: host:port, or a list of them", field="endpoint")
        self._channels: list[grpc.aio.Channel] = [connect_endpoint(endpoint, **options) for endpoint in self.endpoints]
        self._stubs = [wire.Stub(channel) for channel in self._channels]
        self._current = 0

    @property
    def stub(self) -> wire.AsyncStub:
        """Stub of the gateway to call."""
        return self._stubs[self._current]

    def failed(self, stub: wire.AsyncStub, error: TltError) -> None:
        """
        Switch from this gateway to the next one, unless the failure concerns the request itself: any gateway would
        refuse it, and this one has the caller's sessions cached.
        """
        if stub is self.stub and (isinstance(error, UnavailableError | OverloadedError) or is_transient(error)):
            self._current = (self._current + 1) % len(self._stubs)

    async def aclose(self) -> None:
        """Close all channels."""
        async with AsyncExitStack() as closing:
            for channel in self._channels:
                closing.push_async_callback(channel.close)
