"""Whether a service takes calls, by the gRPC health protocol."""

from pathlib import Path

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from tlt_common.config.base import TlsSettings
from tlt_common.errors import ConfigError, UnavailableError
from tlt_common.rpc.certificates import certificates
from tlt_common.rpc.channel import secure
from tlt_common.rpc.endpoint import connect_endpoint
from tlt_common.rpc.errors import translated


def credentials_of(ca: Path | None, certificate: Path | None, key: Path | None) -> TlsSettings | None:
    """
    Join options of a command line: all three, or none.

    Raises:
        ConfigError: One is missing.
    """
    if certificate is None and key is None:
        return None
    if ca is None or certificate is None or key is None:
        raise ConfigError("--certificate, --key and --ca belong together; give all three", field="certificate")
    return TlsSettings(certificate=certificate, key=key, ca=ca)


def channel_to(address: str, *, ca: Path | None, tls: TlsSettings | None, server_name: str) -> grpc.aio.Channel:
    """
    Open a channel to any service of the suite.

    Raises:
        ConfigError: A file cannot be used.
    """
    if tls is None:
        return connect_endpoint(address, ca=ca, server_name=server_name)
    material = certificates(tls).current()
    credentials = grpc.ssl_channel_credentials(material.ca, material.key, material.certificate)
    return secure(address, credentials, name=server_name)


async def require_serving(channel: grpc.aio.Channel, service: str, *, timeout_s: float) -> None:
    """
    Ask a server whether it takes calls, for one of its services or, with an empty name, at all.

    Raises:
        NotFoundError: It has no such service.
        UnavailableError: It takes none, or nobody answers.
    """
    request = health_pb2.HealthCheckRequest(service=service)
    with translated():
        answer = await health_pb2_grpc.HealthStub(channel).Check(request, timeout=timeout_s)
    if answer.status != health_pb2.HealthCheckResponse.SERVING:
        status = health_pb2.HealthCheckResponse.ServingStatus.Name(answer.status)
        raise UnavailableError(f"the service says {status}")
