"""Certificate files, read anew when they change. A pair that does not match is passed over: what was good stays."""

import ssl
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from threading import Lock
from typing import TypeAlias

from tlt_common.config.base import TlsSettings
from tlt_common.errors import ConfigError
from tlt_common.telemetry import metrics
from tlt_common.telemetry.log import get_logger

log = get_logger(__name__)

Stamp: TypeAlias = tuple[tuple[int, int, int], ...]
"""What changes when a file is written or replaced: inode, time and size of each."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Material:
    """One consistent reading of the three files."""

    certificate: bytes
    key: bytes
    ca: bytes
    context: ssl.SSLContext
    """For HTTPS servers; asks for no client certificate."""


class Certificates:
    """The files of one process. May be asked from any thread."""

    def __init__(self, tls: TlsSettings) -> None:
        """
        Read the files.

        Raises:
            ConfigError: One cannot be read or is not PEM, or the key is not that of the certificate.
        """
        self._tls = tls
        self._lock = Lock()
        self._seen: Stamp | None
        self._seen, self._material = _read(tls)

    def current(self) -> Material:
        """
        As the files are now, or were when they were good last.

        The same object until they change. Renewals write one file after the other, so that a pair which does not match
        is no reason to end a service; it is counted and logged, once.
        """
        with self._lock:
            if (stamp := _stamp(self._tls)) != self._seen:
                self._renew(stamp)
            return self._material

    def _renew(self, stamp: Stamp | None) -> None:
        try:
            self._seen, self._material = _read(self._tls)
        except ConfigError as error:
            if stamp == _stamp(self._tls):
                self._seen = stamp  # it is tried again when a file changes again, not before
            metrics.CERTIFICATE_RELOADS.labels(outcome="refused").inc()
            log.error("certificate_refused", field=error.field, error=error.message)  # noqa: TRY400 - it says all
        else:
            metrics.CERTIFICATE_RELOADS.labels(outcome="loaded").inc()
            log.info("certificate_loaded", certificate=str(self._tls.certificate))


@cache
def certificates(tls: TlsSettings) -> Certificates:
    """
    Give everybody in this process the same view of the same files.

    Raises:
        ConfigError: As `Certificates`.
    """
    return Certificates(tls)


def _stamp(tls: TlsSettings) -> Stamp | None:
    """None while a file is missing."""
    try:
        stats = [path.stat() for path in (tls.certificate, tls.key, tls.ca)]
    except OSError:
        return None
    return tuple((stat.st_ino, stat.st_mtime_ns, stat.st_size) for stat in stats)


def _read(tls: TlsSettings) -> tuple[Stamp, Material]:
    """
    Raises:
        ConfigError: The files are not there, not PEM, do not match or changed meanwhile.
    """
    before = _stamp(tls)
    certificate, key, ca = _bytes(tls.certificate, "certificate"), _bytes(tls.key, "key"), _bytes(tls.ca, "ca")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(tls.certificate, tls.key, password=_no_password)
    except (ssl.SSLError, ValueError) as error:
        raise ConfigError(
            f"tls: {tls.certificate} and {tls.key} are not a certificate and its unencrypted key in PEM: {error}",
            field="tls.certificate",
        ) from error
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=ca.decode("ascii", "replace"))
    except (ssl.SSLError, ValueError) as error:
        raise ConfigError(f"tls.ca: {tls.ca} holds no certificate in PEM: {error}", field="tls.ca") from error
    if before is None or before != _stamp(tls):
        raise ConfigError(f"tls: {tls.certificate} and its fellows are being replaced", field="tls")
    return before, Material(certificate=certificate, key=key, ca=ca, context=context)


def _no_password() -> str:
    raise ValueError("the key wants a password")


def _bytes(path: Path, field: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(f"tls.{field}: {path}: {error.strerror}", field=f"tls.{field}") from error
