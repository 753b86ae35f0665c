"""Channels, all with the same limits."""

import grpc

from tlt_common.config.base import TlsSettings
from tlt_common.rpc.access import DOMAIN
from tlt_common.rpc.certificates import Material, certificates
from tlt_common.rpc.renewal import RenewedChannel
from tlt_common.telemetry import trace

MESSAGE_BYTES = 256 * 2**20
"""Largest message: a training frame is far below, a tensor piece is 4 MiB."""

OPTIONS: tuple[tuple[str, int], ...] = (
    ("grpc.max_receive_message_length", MESSAGE_BYTES),
    ("grpc.max_send_message_length", MESSAGE_BYTES),
    # A peer that restarts is back within seconds; gRPC's own 20 s would be the longest wait of a rollout.
    ("grpc.initial_reconnect_backoff_ms", 100),
    # In spite of its name the time that one attempt has: TLS on a machine whose cores all decode takes a second.
    ("grpc.min_reconnect_backoff_ms", 3000),
    ("grpc.max_reconnect_backoff_ms", 1000),
    # A connection of its own per channel, so that closing one never ends another's calls.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.http2.max_pings_without_data", 0),
)


def connect(address: str, *, to: str = "", tls: TlsSettings | None = None) -> grpc.aio.Channel:
    """
    Open a channel; `async with` closes it. Connecting happens at the first call.

    Args:
        address: host:port or unix:PATH.
        to: Component that must be there, by its certificate: workers are reached by the addresses of their pods.
        tls: Own certificate and authorities, read anew when they change; None: plain text. Unix sockets stay within a
            pod and are always plain text.

    Raises:
        ConfigError: The TLS files cannot be used.
    """
    if tls is None or address.startswith("unix:"):
        return plain(address)

    def dial(material: Material) -> grpc.aio.Channel:
        credentials = grpc.ssl_channel_credentials(material.ca, material.key, material.certificate)
        return secure(address, credentials, name=f"{to}{DOMAIN}" if to else "")

    return RenewedChannel(certificates(tls).current, dial)


def plain(address: str) -> grpc.aio.Channel:
    """Open a channel in plain text."""
    return grpc.aio.insecure_channel(address, options=list(OPTIONS), interceptors=trace.client_interceptors())


def secure(address: str, credentials: grpc.ChannelCredentials, *, name: str = "") -> grpc.aio.Channel:
    """Open an encrypted channel to a server whose certificate is for `name`, or for the host if that is empty."""
    override = [("grpc.ssl_target_name_override", name)] if name else []
    options = [*OPTIONS, *override]
    return grpc.aio.secure_channel(address, credentials, options=options, interceptors=trace.client_interceptors())
