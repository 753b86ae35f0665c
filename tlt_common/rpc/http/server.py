"""An HTTP server in the event loop of the service."""

import asyncio
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn
from starlette.types import ASGIApp

from tlt_common.config.base import TlsSettings
from tlt_common.errors import ConfigError
from tlt_common.rpc.addresses import MAX_PORT, joined, listener, split
from tlt_common.rpc.security.certificates import certificates, following

BACKLOG = 256
"""Connections that wait to be accepted; as many are accepted in one pass of the event loop."""


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        # The service handles signals, and shuts this server down with everything else.
        yield


async def serve_http(
    app: ASGIApp,
    bound: socket.socket,
    tls: TlsSettings | None = None,
    *,
    protocol: type[asyncio.Protocol],
) -> None:
    """
    Serve HTTP on a bound socket until cancelled, then close it.

    Args:
        app: The application.
        bound: The socket.
        tls: Serve HTTPS, without client certificates.
        protocol: Protocol class of connections.

    Raises:
        ConfigError: The TLS files cannot be used.
    """
    config = uvicorn.Config(
        app,
        http=protocol,
        log_config=None,
        access_log=False,
        lifespan="off",
        ws="none",
        backlog=BACKLOG,
    )
    await asyncio.to_thread(config.load)  # it imports what it serves with
    config.ssl = following(certificates(tls)) if tls else None
    server = _Server(config)
    try:
        await server.serve(sockets=[bound])
    finally:
        server.force_exit = True  # do not wait for open connections
        if server.started:
            await server.shutdown(sockets=[bound])


def bind(listen: str, *, key: str = "http_listen") -> socket.socket:
    """
    Bind host:port, the value of a configuration key; port 0 binds any free port.

    Raises:
        ConfigError: `listen` is not host:port, or the port is in use.
    """
    host, port = split(listen)
    if not host or not port.isdecimal() or int(port) > MAX_PORT:
        raise ConfigError(f"{key} is {listen!r}; accepted: host:port with a port of 0 to {MAX_PORT}", field=key)
    try:
        return listener(host, int(port))
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise ConfigError(f"{key} {listen} cannot be bound: {reason}", field=key) from error


def address_of(bound: socket.socket) -> str:
    """Return the host:port a socket is bound to."""
    host, port = bound.getsockname()[:2]
    return joined(host, port)
