"""`tlt status`: workers, roles, leases, drafter and bubble utilisation, live."""

from pathlib import Path
from typing import Annotated

import typer

from tlt_common.errors import ConfigError
from tlt_local.addresses import HOST, PORT

app = typer.Typer(add_completion=False)


@app.callback(invoke_without_command=True)
def status(
    coordinator: Annotated[
        str, typer.Option(help="host:port of the coordinator, as `tlt up` prints it.")
    ] = f"{HOST}:{PORT + 1}",
    watch: Annotated[
        bool, typer.Option("--watch/--once", help="Refresh every second until Ctrl-C, or print once.")
    ] = True,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per refresh.")] = False,
    ca: Annotated[Path | None, typer.Option(help="CA bundle (PEM); enables TLS.")] = None,
    certificate: Annotated[Path | None, typer.Option(help="Client certificate (PEM) for admin.tlt.internal.")] = None,
    key: Annotated[Path | None, typer.Option(help="Private key of --certificate (PEM).")] = None,
) -> None:
    """Show workers, roles, leases, drafter version, accept length and bubble utilisation."""
    from rich.console import Console

    from tlt_common.client.health import credentials_of
    from tlt_local.interrupt import run
    from tlt_local.watch import show

    tls = credentials_of(ca, certificate, key)
    if ca and not tls:
        raise ConfigError(
            "the coordinator requires a client certificate; give --certificate and --key", field="certificate"
        )
    run(lambda: show(coordinator, Console(), tls, watch=watch, as_json=as_json))
