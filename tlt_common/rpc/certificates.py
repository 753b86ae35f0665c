"""Certificate files of one process, checked and renewed in place."""

import ssl
from dataclasses import dataclass
from functools import cache
from typing import TypeAlias

from tlt_common.config.base import TlsSettings
from tlt_common.errors import ConfigError
from tlt_common.rpc.expiry import expires_at
from tlt_common.rpc.reloaded import Reloaded, read_bytes
from tlt_common.telemetry import metrics


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Material:
    """One reading of the three files, which fit together."""

    certificate: bytes
    key: bytes
    ca: bytes
    context: ssl.SSLContext
    """For HTTPS servers; asks for no client certificate."""


Certificates: TypeAlias = Reloaded[Material]


@cache
def certificates(tls: TlsSettings) -> Certificates:
    """
    Watch the files of `tls`. Everybody in this process gets the same view of the same files.

    Raises:
        ConfigError: One cannot be read or is not PEM, or the key is not that of the certificate.
    """
    return Reloaded("certificate", (tls.certificate, tls.key, tls.ca), lambda: _read(tls))


def following(files: Certificates) -> ssl.SSLContext:
    """Make a context for a server that takes one for good; every handshake gets what is in the files by then."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)

    def show(connection: ssl.SSLObject, _name: str | None, _context: ssl.SSLContext) -> None:
        connection.context = files.current().context

    context.sni_callback = show
    return context


def _read(tls: TlsSettings) -> Material:
    certificate = read_bytes(tls.certificate, "tls.certificate")
    key, ca = read_bytes(tls.key, "tls.key"), read_bytes(tls.ca, "tls.ca")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(tls.certificate, tls.key, password=_no_password)
    except (ssl.SSLError, ValueError, OSError) as error:
        raise ConfigError(
            f"tls: {tls.certificate} and {tls.key} are not a certificate and its unencrypted key in PEM: {error}",
            field="tls.certificate",
        ) from error
    metrics.CERTIFICATE_EXPIRY.set(expires_at(certificate).timestamp())
    check_authorities(ca, f"tls.ca: {tls.ca}", "tls.ca")
    return Material(certificate=certificate, key=key, ca=ca, context=context)


def check_authorities(pem: bytes, where: str, field: str) -> None:
    """
    Check that something is there to believe.

    Raises:
        ConfigError: There is no certificate in it.
    """
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=pem.decode("ascii", "replace"))
    except (ssl.SSLError, ValueError) as error:
        raise ConfigError(f"{where} holds no certificate in PEM: {error}", field=field) from error


def _no_password() -> str:
    raise ValueError("the key wants a password")
