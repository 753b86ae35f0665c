"""Reads the expiry of a certificate file; the standard library reports it only for connected peers."""

import ssl
from collections.abc import Iterator
from datetime import UTC, datetime

VERSION = 0xA0
UTC_TIME = 0x17
BEGIN = "-----BEGIN CERTIFICATE-----"


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
