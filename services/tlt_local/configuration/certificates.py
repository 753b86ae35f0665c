"""
Certificates of a run: `--tls DIR` holds a folder per component, with the file names of a Kubernetes TLS secret.

`DIR/gateway/tls.crt`, `tls.key` and `ca.crt`, and the same for coordinator, worker, cache, tuner and admin. Each
certificate carries the DNS name COMPONENT.tlt.internal and the IP address 127.0.0.1. `tlt up` and `tlt status` use the
certificate of admin; a spot trainer uses its worker's.
"""

from pathlib import Path

from tlt_common.config.base import TlsSettings
from tlt_common.errors import ConfigError

COMPONENTS = ("gateway", "coordinator", "worker", "cache", "tuner", "admin")


def certificate_of(directory: Path | None, component: str) -> TlsSettings | None:
    """Return the certificate files of a component, or None for plain text."""
    if directory is None:
        return None
    folder = directory.resolve() / component
    return TlsSettings(certificate=folder / "tls.crt", key=folder / "tls.key", ca=folder / "ca.crt")


def check_certificates(directory: Path | None) -> None:
    """
    Check that all files exist.

    Raises:
        ConfigError: A file is missing; the message names it.
    """
    for component in COMPONENTS:
        files = certificate_of(directory, component)
        for path in (files.certificate, files.key, files.ca) if files else ():
            if not path.is_file():
                raise ConfigError(
                    f"--tls: {path} is missing; accepted: a directory with COMPONENT/tls.crt, tls.key and ca.crt "
                    f"for {', '.join(COMPONENTS)}",
                    field="tls",
                )
