"""`tlt bench`. Progress goes to stderr; the last line on stdout is one JSON object."""

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(
    help="Measure what the project claims, each side against its baseline in one run.", no_args_is_help=True
)


@app.callback()
def bench() -> None:
    """Measure what the project claims, each side against its baseline in one run."""


@app.command()
def rollout(
    json: Annotated[str, typer.Option(metavar="PATH|-", help="Where the JSON object goes.")] = "-",
    quick: Annotated[bool, typer.Option("--quick", help="Fewer steps: under 5 minutes on 2 cores.")] = False,
    keep: Annotated[Path | None, typer.Option(help="Keep run.json and report.html in this directory.")] = None,
) -> None:
    """Step and tail time, accept length, bubble utilisation: everything on against everything off, same prompts."""
    from tlt_lab.bench.result import check_target
    from tlt_lab.bench.rollout import measure

    check_target(json)
    measure(quick=quick, keep=keep).write(json)


@app.command()
def curves(
    json: Annotated[str, typer.Option(metavar="PATH|-", help="Where the JSON object goes.")] = "-",
    quick: Annotated[bool, typer.Option("--quick", help="Two small steps a run: shows that it works.")] = False,
    seeds: Annotated[int, typer.Option(min=2, help="Runs on each side; three take half an hour on 2 cores.")] = 3,
) -> None:
    """Reward of an RL run with drafts and lending, and without, against the spread between seeds."""
    from tlt_lab.bench.curves import measure
    from tlt_lab.bench.result import check_target
    from tlt_lab.bench.talk import Talk

    check_target(json)
    measure(quick=quick, seeds=seeds, watcher=Talk()).write(json)


if __name__ == "__main__":
    app()
