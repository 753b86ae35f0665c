"""Channels for external clients of a gateway, with or without TLS and token."""

from collections.abc import Callable
from functools import partial
from os import PathLike, fspath
from pathlib import Path
from typing import TypeAlias

import grpc

from tlt_common.errors import ConfigError
from tlt_common.rpc.addresses import is_local
from tlt_common.rpc.channel import connect, plain, secure
from tlt_common.rpc.security.certificates import check_authorities
from tlt_common.rpc.security.reloaded import Reloaded, read_bytes
from tlt_common.rpc.security.renewal import RenewedChannel

Secret: TypeAlias = str | PathLike[str]
"""A token, or the path of a file that contains it, reloaded when it changes."""


def connect_endpoint(
    endpoint: str,
    *,
    token: Secret | None = None,
    ca: str | PathLike[str] | None = None,
    tls: bool | None = None,
    server_name: str = "",
) -> grpc.aio.Channel:
    """
    Open a channel to host:port; `async with` closes it. It connects at the first call.

    Args:
        endpoint: host:port.
        token: Token sent with every call; None sends none.
        ca: CA bundle (PEM) to verify the server with, reloaded when it changes; None uses gRPC's default roots.
        tls: Whether to use TLS; None enables it if `ca` or `server_name` is given. False confirms that the connection
            is encrypted otherwise, such as by a service mesh.
        server_name: Name expected in the server certificate; empty means the host of `endpoint`.

    Raises:
        ConfigError: The options contradict each other, a file is unreadable or invalid, or the token would be sent in
            plain text.
    """
    if tls is False and (ca or server_name):
        raise ConfigError("tls=False contradicts ca and server_name; give only one of them", field="tls")
    encrypted = bool(ca or server_name) if tls is None else tls
    if token is not None and not encrypted and tls is None and not is_local(endpoint):
        raise ConfigError(
            f"the token would be sent to {endpoint} in plain text; give ca= or tls=True, or tls=False if a service "
            "mesh encrypts",
            field="token",
        )
    metadata = _metadata(token)
    if not encrypted and token is None:
        return connect(endpoint)
    if not encrypted:
        return RenewedChannel(lambda: None, lambda _: plain(endpoint), metadata=metadata)

    def dial(roots: bytes | None) -> grpc.aio.Channel:
        return secure(endpoint, grpc.ssl_channel_credentials(roots), name=server_name)

    return RenewedChannel(_roots(ca), dial, metadata=metadata)


def _roots(ca: str | PathLike[str] | None) -> Callable[[], bytes | None]:
    if ca is None:
        return lambda: None
    path = Path(fspath(ca))

    def read() -> bytes:
        pem = read_bytes(path, "ca")
        check_authorities(pem, f"ca: {path}", "ca")
        return pem

    return Reloaded("authority", (path,), read).current


def _metadata(token: Secret | None) -> Callable[[], tuple[tuple[str, str], ...]]:
    if token is None:
        return tuple
    if isinstance(token, str):
        return partial(tuple, [_pair(token)])
    path = Path(fspath(token))
    file = Reloaded("token", (path,), lambda: _pair(read_bytes(path, "token").decode("ascii", "replace")))
    return lambda: (file.current(),)


def _pair(token: str) -> tuple[str, str]:
    """
    Return the metadata entry of a token.

    Raises:
        ConfigError: The token cannot be sent in a header; the message does not contain it.
    """
    stripped = token.strip()
    if not stripped or not stripped.isascii() or not stripped.isprintable() or " " in stripped:
        raise ConfigError(
            "token is empty or contains invalid characters; accepted: printable ASCII without spaces", field="token"
        )
    return ("authorization", f"Bearer {stripped}")
