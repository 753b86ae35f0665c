"""gRPC servers, all with health, reflection and the same error table."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from tlt_common.config.base import TlsSettings
from tlt_common.errors import ConfigError
from tlt_common.rpc.access import Access, Open
from tlt_common.rpc.addresses import announce
from tlt_common.rpc.certificates import Material, certificates
from tlt_common.rpc.channel import OPTIONS
from tlt_common.rpc.drain import Drain
from tlt_common.rpc.interceptor import CallInterceptor
from tlt_common.rpc.readiness import DRAINING, STOPPED, note_ready, note_unready
from tlt_common.telemetry import trace

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Door:
    """How callers come in, and which."""

    tls: TlsSettings | None = None
    """None: plain text."""
    asks_certificate: bool = True
    """With TLS: callers show a certificate of our authority, or no connection is made."""
    access: Access = field(default_factory=Open)


def internal(tls: TlsSettings | None, access: Access) -> Door:
    """Make the door of a service that only services call: with TLS each shows who it is, without it is open."""
    return Door(tls=tls, access=access) if tls else Door()


@asynccontextmanager
async def serving(
    address: str,
    *services: Service,
    uds: Path | None = None,
    door: Door | None = None,
    drain: Drain | None = None,
    connection_s: float | None = None,
) -> AsyncIterator[Serving]:
    """
    Take calls at host:port, and at a unix socket too if `uds` is given, which is always plain text.

    Once `drain` begins, probes are told that this server takes no calls. With `connection_s` callers are told to
    connect anew so often; running calls may end where they are.

    Raises:
        ConfigError: The address is taken or malformed, or the TLS files cannot be used.
    """
    door, drain = door or Door(), drain or Drain()
    # Without so_reuseport=0 a second server on the same port would silently share its calls.
    options = [*OPTIONS, ("grpc.so_reuseport", 0), ("grpc.http2.min_ping_interval_without_data_ms", 10_000)]
    if connection_s is not None:
        options.append(("grpc.max_connection_age_ms", round(connection_s * 1000)))
    interceptors = [*trace.server_interceptors(), CallInterceptor(door.access, drain)]
    server = grpc.aio.server(interceptors=interceptors, options=options)
    for service in services:
        service.add(server)
    status = health.aio.HealthServicer()
    health_pb2_grpc.add_HealthServicer_to_server(status, server)
    names = [service.name for service in services]
    reflection.enable_server_reflection([*names, health.SERVICE_NAME, reflection.SERVICE_NAME], server)
    port = _bound(server, address, _credentials(door))
    if uds is not None:
        uds.unlink(missing_ok=True)  # noqa: ASYNC240 - one system call, at start
        _bound(server, f"unix:{uds}", None)
    await server.start()
    for name in ["", *names]:
        await status.set(name, health_pb2.HealthCheckResponse.SERVING)

    async def leave(within_s: float) -> None:
        note_unready(DRAINING)
        await status.enter_graceful_shutdown()
        if drain.hangs_up:
            await server.stop(within_s)

    drain.when_begun(leave)
    note_ready()
    announce("grpc", f"{address.rpartition(':')[0]}:{port}")
    try:
        yield Serving(port=port)
    finally:
        note_unready(STOPPED)
        await status.enter_graceful_shutdown()
        await server.stop(GRACE_S)


def _bound(server: grpc.aio.Server, address: str, credentials: grpc.ServerCredentials | None) -> int:
    try:
        if credentials is None:
            port = server.add_insecure_port(address)
        else:
            port = server.add_secure_port(address, credentials)
    except RuntimeError as error:
        raise ConfigError(
            f"listen: {address} cannot be bound; is it taken? Choose another, or port 0 for any", field="listen"
        ) from error
    return port


def _credentials(door: Door) -> grpc.ServerCredentials | None:
    """Credentials that follow the files: gRPC asks before every handshake."""
    if door.tls is None:
        return None
    files = certificates(door.tls)
    shown = files.current()

    def renewed() -> grpc.ServerCertificateConfiguration | None:
        nonlocal shown
        material = files.current()
        if material is shown:
            return None
        shown = material
        return _configuration(material)

    return grpc.dynamic_ssl_server_credentials(
        _configuration(shown),
        renewed,  # type: ignore[arg-type] # the stubs forget that None stands for no change
        require_client_authentication=door.asks_certificate,
    )


def _configuration(material: Material) -> grpc.ServerCertificateConfiguration:
    return grpc.ssl_server_certificate_configuration([(material.key, material.certificate)], material.ca)
