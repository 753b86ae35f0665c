"""Certificate files of the process, checked, and reloaded when they change."""

import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import TypeAlias

from tlt_common.config.base import TlsSettings
from tlt_common.errors import ConfigError
from tlt_common.rpc.security.reloaded import Reloaded, read_bytes
from tlt_common.telemetry import metrics

VERSION = 0xA0
UTC_TIME = 0x17
BEGIN = "-----BEGIN CERTIFICATE-----"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Material:
    """Contents of the three files, read together and matching."""

    certificate: bytes
    key: bytes
    ca: bytes
    context: ssl.SSLContext
    """For HTTPS servers; requests no client certificate."""


Certificates: TypeAlias = Reloaded[Material]


@cache
def certificates(tls: TlsSettings) -> Certificates:
    """
    Watch the files of `tls`. All callers in this process share one watch per set of files.

    Raises:
        ConfigError: A file is unreadable or not PEM, or the key does not match the certificate.
    """
    return Reloaded("certificate", (tls.certificate, tls.key, tls.ca), lambda: _read(tls))


def following(files: Certificates) -> ssl.SSLContext:
    """Return a context for servers that keep a single context; every handshake uses the current files."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)

    def use_current(connection: ssl.SSLObject, _name: str | None, _context: ssl.SSLContext) -> None:
        connection.context = files.current().context

    context.sni_callback = use_current
    return context


def _read(tls: TlsSettings) -> Material:
    certificate = read_bytes(tls.certificate, "tls.certificate")
    key, ca = read_bytes(tls.key, "tls.key"), read_bytes(tls.ca, "tls.ca")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(tls.certificate, tls.key, password=_no_password)
    except (ssl.SSLError, ValueError, OSError) as error:
        raise ConfigError(
            f"tls: {tls.certificate} and {tls.key} are not a PEM certificate and its unencrypted key: {error}",
            field="tls.certificate",
        ) from error
    metrics.CERTIFICATE_EXPIRY.set(expires_at(certificate).timestamp())
    check_authorities(ca, f"tls.ca: {tls.ca}", "tls.ca")
    return Material(certificate=certificate, key=key, ca=ca, context=context)


def check_authorities(pem: bytes, where: str, field: str) -> None:
    """
    Check that a CA bundle contains a certificate.

    Raises:
        ConfigError: It contains none.
    """
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=pem.decode("ascii", "replace"))
    except (ssl.SSLError, ValueError) as error:
        raise ConfigError(f"{where} contains no PEM certificate: {error}", field=field) from error


def _no_password() -> str:
    raise ValueError("the key is encrypted")


def expires_at(pem: bytes) -> datetime:
    """
    Return the end of validity of the first certificate (RFC 5280, 4.1).

    Raises:
        ValueError: The bytes contain no certificate.
    """
    text = pem.decode("ascii", "replace")
    end = "-----END CERTIFICATE-----"
    start = text.index(BEGIN)
    der = memoryview(ssl.PEM_cert_to_DER_cert(text[start : text.index(end, start) + len(end)] + "\n"))
    (_, certificate), *_ = _elements(der)
    (_, signed), *_ = _elements(certificate)
    fields = [element for element in _elements(signed) if element[0] != VERSION]
    _serial, _algorithm, _issuer, (_, validity), *_ = fields
    _not_before, (kind, value), *_ = _elements(validity)
    digits = bytes(value).decode("ascii")
    # Two-digit years mean 1950 to 2049.
    year = ("19" if digits >= "5" else "20") if kind == UTC_TIME else ""
    return datetime.strptime(f"{year}{digits}", "%Y%m%d%H%M%SZ").replace(tzinfo=UTC)


def _elements(der: memoryview) -> Iterator[tuple[int, memoryview]]:
    """Yield tag and content of each DER element."""
    while der:
        tag, length, start = der[0], der[1], 2
        if length & 0x80:
            start += length & 0x7F
            length = int.from_bytes(der[2:start], "big")
        yield tag, der[start : start + length]
        der = der[start + length :]
