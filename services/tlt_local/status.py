"""`tlt status`: shows workers, roles, leases, drafter and bubble utilization."""

import sys
from typing import Annotated

import typer

from tlt_local.operator_options import USUAL, At, Ca, Certificate, Key, tls_of

PIPE_COLUMNS = 500
"""Width of the table in a pipe, in which no line may be wrapped."""

app = typer.Typer(add_completion=False)


@app.callback(invoke_without_command=True)
def status(
    coordinator: At = USUAL,
    watch: Annotated[bool, typer.Option("--watch", help="Refresh every second until Ctrl-C.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON object; with --watch, one per second.")] = False,
    ca: Ca = None,
    certificate: Certificate = None,
    key: Key = None,
) -> None:
    """
    Show workers, roles, leases, drafter version, accept length and bubble utilization.

    A terminal of 110 columns or a pipe also gets leases, tokens and trainers. A worker that is down is listed with
    since when and why.
    """
    from rich.console import Console

    from tlt_local.interrupt import run
    from tlt_local.watch import show

    tls = tls_of(ca, certificate, key)
    console = Console() if sys.stdout.isatty() else Console(width=PIPE_COLUMNS)
    run(lambda: show(coordinator, console, tls, watch=watch, as_json=as_json))
