"""An HTTP server inside the service's own event loop."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn
from fastapi import FastAPI

from tlt_common.config.base import TlsSettings
from tlt_common.errors import ConfigError
from tlt_common.rpc.certificates import certificates, following


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        # Signals belong to the service, which ends this server with everything else.
        yield


async def serve_http(app: FastAPI, bound: socket.socket, tls: TlsSettings | None = None) -> None:
    """
    Answer on a bound socket until cancelled; it is closed then. With `tls` it is HTTPS, without client certificates.

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
        server.force_exit = True  # nobody waits for a page that is still open
        if server.started:
            await server.shutdown(sockets=[bound])


def bind(listen: str) -> socket.socket:
    """
    Bind host:port; port 0 takes any.

    Raises:
        ConfigError: It is no host:port, or is taken.
    """
    host, _, port = listen.rpartition(":")
    if not host or not port.isdecimal():
        raise ConfigError(f"http_listen is {listen!r}; accepted: host:port", field="http_listen")
    try:
        return socket.create_server((host, int(port)))
    except OSError as error:
        raise ConfigError(f"http_listen {listen} cannot be bound: {error.strerror}", field="http_listen") from error


def address_of(bound: socket.socket) -> str:
    """host:port a socket is bound to."""
    host, port = bound.getsockname()[:2]
    return f"{host}:{port}"
