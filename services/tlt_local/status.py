"""`tlt status`: shows workers, roles, leases, drafter and bubble utilization, live."""

from typing import Annotated

import typer

from tlt_local.operator_options import USUAL, At, Ca, Certificate, Key, tls_of

app = typer.Typer(add_completion=False)


@app.callback(invoke_without_command=True)
def status(
    coordinator: At = USUAL,
    watch: Annotated[
        bool, typer.Option("--watch/--once", help="Refresh every second until Ctrl-C, or print once.")
    ] = True,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per refresh.")] = False,
    ca: Ca = None,
    certificate: Certificate = None,
    key: Key = None,
) -> None:
    """Show workers, roles, leases, drafter version, accept length and bubble utilization."""
    from rich.console import Console

    from tlt_local.interrupt import run
    from tlt_local.watch import show

    tls = tls_of(ca, certificate, key)
    run(lambda: show(coordinator, Console(), tls, watch=watch, as_json=as_json))
