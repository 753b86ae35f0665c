"""An HTTP server inside the service's own event loop."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn
from fastapi import FastAPI

from tlt_common.errors import ConfigError


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        # Signals belong to the service, which ends this server with everything else.
        yield


async def serve_http(app: FastAPI, bound: socket.socket) -> None:
    """Answer on a bound socket until cancelled; it is closed then."""
    server = _Server(uvicorn.Config(app, log_config=None, access_log=False, lifespan="off", ws="none"))
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
