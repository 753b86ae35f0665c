"""Creates channels, all with the same limits."""

import os
from urllib.parse import urlsplit

import grpc

from tlt_common.config.base import TlsSettings
from tlt_common.errors import ConfigError
from tlt_common.rpc.addresses import is_local
from tlt_common.rpc.security.access import DOMAIN
from tlt_common.rpc.security.certificates import Material, certificates
from tlt_common.rpc.security.renewal import RenewedChannel
from tlt_common.telemetry import tracing

MESSAGE_BYTES = 256 * 2**20
"""Maximum message size. Training frames are far smaller, tensor pieces have 4 MiB."""

KEEPALIVE_S = 20
"""Seconds without a received byte after which a peer is asked for a sign of life, while a call is open."""
KEEPALIVE_ANSWER_S = 20
"""Seconds for its answer. A starved peer answers late; a hung one is found by its silence
(`tlt_gateway.workers.silence`), long before this."""
PROXY_VARIABLE = "TLT_PROXY"
"""
Environment variable with the proxy of all gRPC connections that leave this machine. gRPC itself would use
`http_proxy` and `https_proxy`, also for loopback addresses: a company's proxy knows neither pods nor this machine.
"""
NOTICED_S = KEEPALIVE_S + KEEPALIVE_ANSWER_S
"""Seconds until calls to a peer that vanished without closing its connection fail with UNAVAILABLE."""

OPTIONS: tuple[tuple[str, int], ...] = (
    ("grpc.max_receive_message_length", MESSAGE_BYTES),
    ("grpc.max_send_message_length", MESSAGE_BYTES),
    # A restarted peer is reachable within seconds; gRPC's default of 20 s would dominate the delay of a rollout.
    ("grpc.initial_reconnect_backoff_ms", 100),
    # Despite its name, the timeout of one attempt: a TLS handshake takes a second while all cores decode.
    ("grpc.min_reconnect_backoff_ms", 3000),
    ("grpc.max_reconnect_backoff_ms", 1000),
    # A name is resolved again when a connection is lost; gRPC's default is at most every 30 s.
    ("grpc.dns_min_time_between_resolutions_ms", 1000),
    # One connection per channel, so that closing one never ends another's calls.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.keepalive_time_ms", 1000 * KEEPALIVE_S),
    ("grpc.keepalive_timeout_ms", 1000 * KEEPALIVE_ANSWER_S),
    # What gRPC 1.85 waits for the answer to a ping, whatever the keepalive timeout is; its default is 60 s.
    ("grpc.http2.ping_timeout_ms", 1000 * KEEPALIVE_ANSWER_S),
    ("grpc.http2.max_pings_without_data", 0),
)


def connect(address: str, *, to: str = "", tls: TlsSettings | None = None) -> grpc.aio.Channel:
    """
    Open a channel; `async with` closes it. It connects at the first call.

    Args:
        address: host:port or unix:PATH.
        to: Component that the server's certificate must name; empty means the host. Workers are addressed by pod IP.
        tls: Own certificate and CA bundle, reloaded when they change; None means plain text. Unix sockets stay within a
            pod and always use plain text.

    Raises:
        ConfigError: The TLS files are unreadable or invalid.
    """
    if tls is None or address.startswith("unix:"):
        return plain(address)

    def dial(material: Material) -> grpc.aio.Channel:
        credentials = grpc.ssl_channel_credentials(material.ca, material.key, material.certificate)
        return secure(address, credentials, name=f"{to}{DOMAIN}" if to else "")

    return RenewedChannel(certificates(tls).current, dial)


def plain(address: str) -> grpc.aio.Channel:
    """Open a plain-text channel."""
    options = [*OPTIONS, *_proxied(address)]
    return grpc.aio.insecure_channel(address, options=options, interceptors=tracing.client_interceptors())


def secure(address: str, credentials: grpc.ChannelCredentials, *, name: str = "") -> grpc.aio.Channel:
    """Open a TLS channel to a server with a certificate for `name`; empty means the host."""
    override = [("grpc.ssl_target_name_override", name)] if name else []
    options = [*OPTIONS, *_proxied(address), *override]
    return grpc.aio.secure_channel(address, credentials, options=options, interceptors=tracing.client_interceptors())


def _proxied(address: str) -> tuple[tuple[str, int | str], ...]:
    """
    Return the options that name the proxy. gRPC reads `no_proxy` itself.

    Raises:
        ConfigError: `TLT_PROXY` is not a proxy address that gRPC supports; the message does not contain its password.
    """
    proxy = os.environ.get(PROXY_VARIABLE, "")
    if not proxy or is_local(address):
        return (("grpc.enable_http_proxy", 0),)
    try:
        url = urlsplit(proxy)
        usable = url.scheme == "http" and bool(url.hostname) and url.port is not None
    except ValueError:
        usable = False
    if not usable:
        raise ConfigError(
            f"{PROXY_VARIABLE} is not the address of an HTTP proxy; accepted: http://host:port, or "
            "http://user:password@host:port; unset it to connect directly",
            field=PROXY_VARIABLE,
        )
    return (("grpc.http_proxy", proxy),)
