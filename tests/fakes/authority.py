"""A temporary certificate authority and the files it issues."""

import ssl
from pathlib import Path

import trustme

from tlt_common.config.base import TlsSettings


class Authority:
    """Issues certificates like cert-manager: a directory per component, with the file names of a TLS Secret."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._ca = trustme.CA()

    @property
    def ca(self) -> Path:
        """File with the authority's certificate."""
        path = self._directory / "authority.pem"
        path.parent.mkdir(parents=True, exist_ok=True)
        self._ca.cert_pem.write_to_path(path)
        return path

    def issue(self, component: str, *, bare: bool = False, trusts: "Authority | None" = None) -> TlsSettings:
        """
        Issue a certificate for a component, replacing an earlier one.

        Args:
            bare: Use the plain name, without the component domain.
            trusts: Authority the component trusts; None means this one.
        """
        names = (component,) if bare else (f"{component}.tlt.internal", "localhost", "127.0.0.1")
        issued = self._ca.issue_cert(*names)
        files = self._directory / component
        files.mkdir(parents=True, exist_ok=True)
        (files / "tls.crt").write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
        issued.private_key_pem.write_to_path(files / "tls.key")
        (trusts or self)._ca.cert_pem.write_to_path(files / "ca.crt")
        return TlsSettings(certificate=files / "tls.crt", key=files / "tls.key", ca=files / "ca.crt")

    def client(self) -> ssl.SSLContext:
        """Return a context for HTTPS clients that trust this authority."""
        return ssl.create_default_context(cadata=self._ca.cert_pem.bytes().decode())
