"""Health checks through the gRPC health protocol."""

from pathlib import Path

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from tlt_common.config.base import TlsSettings
from tlt_common.errors import ConfigError, UnavailableError
from tlt_common.rpc.channel import secure
from tlt_common.rpc.endpoint import connect_endpoint
from tlt_common.rpc.errors import translated
from tlt_common.rpc.security.certificates import certificates


def credentials_of(ca: Path | None, certificate: Path | None, key: Path | None) -> TlsSettings | None:
    """
    Convert command-line options to TLS settings; None if neither certificate nor key is given.

    Raises:
        ConfigError: Some of the three options are missing.
    """
    if certificate is None and key is None:
        return None
    if ca is None or certificate is None or key is None:
        raise ConfigError("--certificate and --key require each other and --ca; give all three", field="certificate")
    return TlsSettings(certificate=certificate, key=key, ca=ca)


def channel_to(address: str, *, ca: Path | None, tls: TlsSettings | None, server_name: str) -> grpc.aio.Channel:
    """
    Open a channel to any service of the suite.

    Raises:
        ConfigError: A file is unreadable or invalid.
    """
    if tls is None:
        return connect_endpoint(address, ca=ca, server_name=server_name)
    material = certificates(tls).current()
    credentials = grpc.ssl_channel_credentials(material.ca, material.key, material.certificate)
    return secure(address, credentials, name=server_name)


async def require_serving(channel: grpc.aio.Channel, service: str, *, address: str, timeout_s: float) -> None:
    """
    Check that a server accepts calls for one of its gRPC services, or at all if `service` is empty.

    `address` is the one that messages name.

    Raises:
        NotFoundError: The server has no such service.
        UnavailableError: The server does not accept calls or is unreachable.
    """
    request = health_pb2.HealthCheckRequest(service=service)
    try:
        with translated():
            response = await health_pb2_grpc.HealthStub(channel).Check(request, timeout=timeout_s)
    except UnavailableError as error:
        raise UnavailableError(
            f"nothing answers at {address} ({error.message}); `tlt up --model DIR` starts a suite, `tlt serve NAME` a "
            "service"
        ) from error
    if response.status != health_pb2.HealthCheckResponse.SERVING:
        status = health_pb2.HealthCheckResponse.ServingStatus.Name(response.status)
        raise UnavailableError(f"the service reports {status}")
