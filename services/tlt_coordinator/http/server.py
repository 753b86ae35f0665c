"""An HTTP server in the event loop of the service."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn
from fastapi import FastAPI

from tlt_common.config.base import TlsSettings
from tlt_common.errors import ConfigError
from tlt_common.rpc.addresses import MAX_PORT
from tlt_common.rpc.certificates import certificates, following


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        # The service handles signals, and shuts this server down with everything else.
        yield


async def serve_http(app: FastAPI, bound: socket.socket, tls: TlsSettings | None = None) -> None:
    """
    Serve HTTP on a bound socket until cancelled, then close it. With `tls`, serve HTTPS without client certificates.

    Raises:
        ConfigError: The TLS files cannot be used.
    """
    config = uvicorn.Config(app, log_config=None, access_log=False, lifespan="off", ws="none")
    config.load()
    config.ssl = following(certificates(tls)) if tls else None
    server = _Server(config)
    try:
        await server.serve(sockets=[bound])
    finally:
        server.force_exit = True  # do not wait for open connections
        if server.started:
            await server.shutdown(sockets=[bound])


def bind(listen: str) -> socket.socket:
    """
    Bind host:port; port 0 binds any free port.

    Raises:
        ConfigError: `listen` is not host:port, or the port is in use.
    """
    host, _, port = listen.rpartition(":")
    if not host or not port.isdecimal() or int(port) > MAX_PORT:
        raise ConfigError(
            f"http_listen is {listen!r}; accepted: host:port with a port of 0 to {MAX_PORT}", field="http_listen"
        )
    try:
        return socket.create_server((host, int(port)))
    except (OSError, TypeError, ValueError) as error:  # the last two: the host is no name
        reason = error.strerror if isinstance(error, OSError) else error
        raise ConfigError(f"http_listen {listen} cannot be bound: {reason}", field="http_listen") from error


def address_of(bound: socket.socket) -> str:
    """Return the host:port a socket is bound to."""
    host, port = bound.getsockname()[:2]
    return f"{host}:{port}"
