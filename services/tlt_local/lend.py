"""`tlt lend`: controls which idle workers are lent to drafter training."""

from pathlib import Path
from typing import Annotated

import typer

from tlt_local.operator_options import USUAL, At, Ca, Certificate, Key, tls_of

Workers = Annotated[list[str], typer.Argument(metavar="WORKER...", help="Ids of workers, as `tlt status` shows them.")]

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    help="Enable or disable lending of idle workers to drafter training, for all or for some. `tlt status` shows "
    "why each worker is or is not lent.",
)


@app.command()
def on(at: At = USUAL, ca: Ca = None, certificate: Certificate = None, key: Key = None) -> None:
    """Lend idle workers. After a restart of the coordinator, its key `lending` applies."""
    _lend(at, ca, certificate, key, enabled=True)


@app.command()
def off(at: At = USUAL, ca: Ca = None, certificate: Certificate = None, key: Key = None) -> None:
    """Stop lending, and take lent workers back. After a restart of the coordinator, its key `lending` applies."""
    _lend(at, ca, certificate, key, enabled=False)


@app.command()
def exclude(workers: Workers, at: At = USUAL, ca: Ca = None, certificate: Certificate = None, key: Key = None) -> None:
    """Exclude workers from lending until they are included again, also across restarts."""
    _exclude(at, ca, certificate, key, workers, excluded=True)


@app.command()
def include(workers: Workers, at: At = USUAL, ca: Ca = None, certificate: Certificate = None, key: Key = None) -> None:
    """Include excluded workers again."""
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
