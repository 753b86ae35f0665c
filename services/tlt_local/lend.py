"""`tlt lend`: whether idle workers are lent to drafter training, and which of them."""

from pathlib import Path
from typing import Annotated

import typer

from tlt_local.operator_options import USUAL, At, Ca, Certificate, Key, tls_of

Workers = Annotated[list[str], typer.Argument(metavar="WORKER...", help="Ids of workers, as `tlt status` shows them.")]

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    help="Lend idle workers to drafter training, or do not: all of them, or all but some. `tlt status` shows why each "
    "worker is lent, or not.",
)


@app.command()
def on(at: At = USUAL, ca: Ca = None, certificate: Certificate = None, key: Key = None) -> None:
    """Lend idle workers. When the coordinator starts again, its key lending decides."""
    _lend(at, ca, certificate, key, enabled=True)


@app.command()
def off(at: At = USUAL, ca: Ca = None, certificate: Certificate = None, key: Key = None) -> None:
    """Lend no worker, and take back those that are lent. When the coordinator starts again, its key lending decides."""
    _lend(at, ca, certificate, key, enabled=False)


@app.command()
def exclude(workers: Workers, at: At = USUAL, ca: Ca = None, certificate: Certificate = None, key: Key = None) -> None:
    """Lend these workers no more, also after restarts, until they are included again."""
    _exclude(at, ca, certificate, key, workers, excluded=True)


@app.command()
def include(workers: Workers, at: At = USUAL, ca: Ca = None, certificate: Certificate = None, key: Key = None) -> None:
    """Lend excluded workers again."""
    _exclude(at, ca, certificate, key, workers, excluded=False)


def _lend(at: str, ca: Path | None, certificate: Path | None, key: Path | None, *, enabled: bool) -> None:
    from tlt_local.interrupt import run
    from tlt_local.operations import set_lending

    tls = tls_of(ca, certificate, key)
    run(lambda: set_lending(at, tls, enabled=enabled))


def _exclude(
    at: str, ca: Path | None, certificate: Path | None, key: Path | None, workers: list[str], *, excluded: bool
) -> None:
    from tlt_local import operations
    from tlt_local.interrupt import run

    tls = tls_of(ca, certificate, key)
    run(lambda: operations.exclude(at, tls, workers, excluded=excluded))
