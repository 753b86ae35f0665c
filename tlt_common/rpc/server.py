"""gRPC servers, all with health checks, reflection and the same error mapping."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from tlt_common.config.base import TlsSettings
from tlt_common.errors import ConfigError
from tlt_common.rpc.addresses import announce, with_port
from tlt_common.rpc.channel import OPTIONS
from tlt_common.rpc.drain import END_S, Drain
from tlt_common.rpc.interceptor import CallInterceptor
from tlt_common.rpc.limits import Limits
from tlt_common.rpc.probes.readiness import DRAINING, STOPPED, beating, note_ready, note_unready
from tlt_common.rpc.security.access import Access, Open
from tlt_common.rpc.security.certificates import Material, certificates
from tlt_common.telemetry import tracing

GRACE_S = 1.0
"""Seconds for running calls to finish when a server stops."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """A gRPC service and the function that adds it to a server."""

    name: str
    """Full name, from the descriptor."""
    add: Callable[[grpc.aio.Server], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """A server that accepts calls."""

    port: int
    """Bound TCP port."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSecurity:
    """Encryption, authentication and authorization of a server's callers."""

    tls: TlsSettings | None = None
    """None means plain text."""
    requires_certificate: bool = True
    """With TLS, require a client certificate issued by our CA; a connection without one fails."""
    access: Access = field(default_factory=Open)


def internal(tls: TlsSettings | None, access: Access) -> ServerSecurity:
    """
    Security of a service that only other services call: with TLS, each presents a certificate; without it, access is
    open.
    """
    return ServerSecurity(tls=tls, access=access) if tls else ServerSecurity()


@asynccontextmanager
async def serving(
    address: str,
    *services: Service,
    uds: Path | None = None,
    security: ServerSecurity | None = None,
    drain: Drain | None = None,
    limits: Limits | None = None,
) -> AsyncIterator[Serving]:
    """
    Serve at host:port and, if `uds` is given, at a unix socket, always in plain text.

    Once `drain` begins, health checks report NOT_SERVING.

    Raises:
        ConfigError: The address is in use or malformed, or the TLS files are invalid.
    """
    security, drain, limits = security or ServerSecurity(), drain or Drain(), limits or Limits()
    # Without so_reuseport=0 a second server on the same port would silently share its calls.
    own = [("grpc.so_reuseport", 0), ("grpc.http2.min_ping_interval_without_data_ms", 10_000)]
    options = list(dict([*OPTIONS, *limits.options(), *own]).items())
    interceptors = [*tracing.server_interceptors(), CallInterceptor(security.access, drain, limits)]
    server = grpc.aio.server(interceptors=interceptors, options=options)
    for service in services:
        service.add(server)
    status = health.aio.HealthServicer()
    health_pb2_grpc.add_HealthServicer_to_server(status, server)
    names = [service.name for service in services]
    reflection.enable_server_reflection([*names, health.SERVICE_NAME, reflection.SERVICE_NAME], server)
    port = _bound(server, address, _credentials(security))
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
            await server.stop(within_s + END_S)

    drain.when_begun(leave)
    note_ready()
    announce("grpc", with_port(address, port))
    try:
        async with beating():
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
            f"listen: {address} cannot be bound and may be in use; choose another address, or port 0 for a free port",
            field="listen",
        ) from error
    return port


def _credentials(security: ServerSecurity) -> grpc.ServerCredentials | None:
    """Return credentials that follow the files: gRPC requests them before every handshake."""
    if security.tls is None:
        return None
    files = certificates(security.tls)
    current = files.current()

    def renewed() -> grpc.ServerCertificateConfiguration | None:
        nonlocal current
        material = files.current()
        if material is current:
            return None
        current = material
        return _configuration(material)

    return grpc.dynamic_ssl_server_credentials(
        _configuration(current),
        renewed,  # type: ignore[arg-type] # the stubs lack None, which means no change
        require_client_authentication=security.requires_certificate,
    )


def _configuration(material: Material) -> grpc.ServerCertificateConfiguration:
    return grpc.ssl_server_certificate_configuration([(material.key, material.certificate)], material.ca)
