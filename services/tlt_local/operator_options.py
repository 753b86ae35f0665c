"""Command-line options for operators: the coordinator's address and credentials."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tlt_common.errors import ConfigError
from tlt_local.addresses import HOST, PORT

if TYPE_CHECKING:
    from tlt_common.config.base import TlsSettings  # with which `--help` would take longer

At = Annotated[str, typer.Option("--coordinator", help="host:port of the coordinator, as `tlt up` prints it.")]
Ca = Annotated[Path | None, typer.Option("--ca", help="CA bundle (PEM); enables TLS.")]
Certificate = Annotated[
    Path | None, typer.Option("--certificate", help="Client certificate (PEM) for admin.tlt.internal.")
]
Key = Annotated[Path | None, typer.Option("--key", help="Private key of --certificate (PEM).")]
USUAL = f"{HOST}:{PORT + 1}"


def tls_of(ca: Path | None, certificate: Path | None, key: Path | None) -> "TlsSettings | None":
    """
    Return the TLS settings from the options, or None without TLS.

    Raises:
        ConfigError: Some of the three options are missing.
    """
    from tlt_common.client.health import credentials_of

    tls = credentials_of(ca, certificate, key)
    if ca and not tls:
        raise ConfigError(
            "the coordinator requires a client certificate; give --certificate and --key", field="certificate"
        )
    return tls
