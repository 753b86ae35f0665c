"""gRPC servers, all with health, reflection and the same error table."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from tlt_common.errors import ConfigError
from tlt_common.rpc.addresses import announce
from tlt_common.rpc.channel import OPTIONS
from tlt_common.rpc.interceptor import CallInterceptor
from tlt_common.rpc.readiness import STOPPED, note_ready, note_unready

GRACE_S = 1.0
"""Running calls may end by themselves for so long when a server stops."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """A gRPC service and how to add it to a server."""

    name: str
    """Full name, from the descriptor."""
    add: Callable[[grpc.aio.Server], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """A server that takes calls."""

    port: int
    """Bound TCP port."""


@asynccontextmanager
async def serving(address: str, *services: Service, uds: Path | None = None) -> AsyncIterator[Serving]:
    """
    Take calls at host:port, and at a unix socket too if `uds` is given.

    Raises:
        ConfigError: The address is taken or malformed.
    """
    # Without so_reuseport=0 a second server on the same port would silently share its calls.
    options = [*OPTIONS, ("grpc.so_reuseport", 0), ("grpc.http2.min_ping_interval_without_data_ms", 10_000)]
    server = grpc.aio.server(interceptors=[CallInterceptor()], options=options)
    for service in services:
        service.add(server)
    status = health.aio.HealthServicer()
    health_pb2_grpc.add_HealthServicer_to_server(status, server)
    names = [service.name for service in services]
    reflection.enable_server_reflection([*names, health.SERVICE_NAME, reflection.SERVICE_NAME], server)
    port = _bound(server, address)
    if uds is not None:
        uds.unlink(missing_ok=True)  # noqa: ASYNC240 - one system call, at start
        _bound(server, f"unix:{uds}")
    await server.start()
    for name in ["", *names]:
        await status.set(name, health_pb2.HealthCheckResponse.SERVING)
    note_ready()
    announce("grpc", f"{address.rpartition(':')[0]}:{port}")
    try:
        yield Serving(port=port)
    finally:
        note_unready(STOPPED)
        await status.enter_graceful_shutdown()
        await server.stop(GRACE_S)


def _bound(server: grpc.aio.Server, address: str) -> int:
    try:
        port = server.add_insecure_port(address)
    except RuntimeError as error:
        raise ConfigError(
            f"listen: {address} cannot be bound; is it taken? Choose another, or port 0 for any", field="listen"
        ) from error
    return port
