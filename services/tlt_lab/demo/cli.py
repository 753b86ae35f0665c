"""`tlt demo`. Torch takes seconds to import, so each command imports what it needs."""

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(help="The main job on one machine, with a tiny reasoner; writes a report.")


@app.callback(invoke_without_command=True)
def demo(
    context: typer.Context,
    quick: Annotated[
        bool, typer.Option("--quick", help="A smoke run of under 4 minutes: too short for a drafter, mostly.")
    ] = False,
    out: Annotated[Path, typer.Option(help="Folder for report.html and run.json.")] = Path("reports/demo"),
) -> None:
    """Run an RL trainer against the suite, compare with everything off, and write a report."""
    if context.invoked_subcommand is None:
        from tlt_lab.demo.main import main

        main(quick=quick, out=out)


@app.command()
def make_model(
    out: Annotated[Path, typer.Option(help="Folder for the checkpoint.")],
    minutes: Annotated[float, typer.Option(min=0.1, help="Time limit; a run that reaches it learns less.")] = 60.0,
    threads: Annotated[int, typer.Option(min=1, help="CPU threads.")] = 2,
    seed: Annotated[int, typer.Option(help="Of weights and traces.")] = 0,
) -> None:
    """Train the policy from scratch on generated traces."""
    from tlt_lab.demo import make_model as warm_up

    warm_up.make_model(
        out, minutes=minutes, threads=threads, seed=seed, report=lambda progress: typer.echo(str(progress), err=True)
    )


@app.command()
def make_drafter(
    out: Annotated[Path, typer.Option(help="Folder for the drafter.")],
    checkpoint: Annotated[Path | None, typer.Option(help="Folder with the policy; else the shipped one.")] = None,
    tokens: Annotated[
        int, typer.Option(min=1, help="Tokens to learn from: 1000 a second on a quiet core.")
    ] = 1_000_000,
    threads: Annotated[int, typer.Option(min=1, help="CPU threads.")] = 2,
    seed: Annotated[int, typer.Option(help="Of problems and responses.")] = 0,
) -> None:
    """Train a drafter from the policy's own responses, as benches use it."""
    from tlt_lab.demo import make_drafter as training
    from tlt_lab.demo.model import CHECKPOINT

    training.make_drafter(
        checkpoint or CHECKPOINT,
        out,
        threads=threads,
        seed=seed,
        token_budget=tokens,
        report=lambda progress: typer.echo(str(progress), err=True),
    )


@app.command()
def evaluate(
    checkpoint: Annotated[Path, typer.Option(help="Folder with the policy.")],
    count: Annotated[int, typer.Option(min=1, help="Problems, one response each.")] = 384,
    cap: Annotated[int, typer.Option(min=1, help="Longest response, in tokens.")] = 1024,
    threads: Annotated[int, typer.Option(min=1, help="CPU threads.")] = 2,
) -> None:
    """Measure accuracy and response lengths at temperature 1."""
    import torch

    from tlt_lab.demo import evaluation

    torch.set_num_threads(threads)
    typer.echo(str(evaluation.evaluate(checkpoint, count=count, cap_tokens=cap)))


if __name__ == "__main__":
    app()
