"""`tlt demo`. Importing torch takes seconds, so each command imports only what it needs."""

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

Sampled: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--sampled",
        help="Sample without seeds, in bfloat16. The two sides then generate different responses, so only "
        "their distributions can be compared.",
    ),
]
"""Option of every run that compares two sides."""

app = typer.Typer(help="Run the whole suite on one machine with a tiny reasoner, and write a report.")


@app.callback(invoke_without_command=True)
def demo(
    context: typer.Context,
    quick: Annotated[
        bool,
        typer.Option("--quick", help="Smoke test in under 4 minutes: start from the shipped drafter, run fewer steps."),
    ] = False,
    warm: Annotated[
        bool, typer.Option("--warm", help="Start from the shipped drafter, like a run that continues an earlier one.")
    ] = False,
    sampled: Sampled = False,
    out: Annotated[Path, typer.Option(help="Directory for report.html and run.json.")] = Path("reports/demo"),
) -> None:
    """
    Train a tiny reasoner with GRPO on the suite, compare every step with TLT on and off, and write a report.

    Both sides of a step use the same seeds, so they generate the same responses. Takes 15 minutes on 2 cores.
    """
    if context.invoked_subcommand is None:
        from countdown.main import main

        main(quick=quick, warm=warm, sampled=sampled, out=out)


@app.command()
def make_model(
    out: Annotated[Path, typer.Option(help="Directory for the checkpoint.")],
    minutes: Annotated[
        float, typer.Option(min=0.1, help="Time limit in minutes; training stops when it is reached.")
    ] = 60.0,
    threads: Annotated[int, typer.Option(min=1, help="CPU threads.")] = 2,
    seed: Annotated[int, typer.Option(help="Seed for the weights and traces.")] = 0,
) -> None:
    """Train the policy from scratch on generated traces."""
    from countdown import make_model as warm_up

    warm_up.make_model(
        out, minutes=minutes, threads=threads, seed=seed, report=lambda progress: typer.echo(str(progress), err=True)
    )


@app.command()
def make_drafter(
    out: Annotated[Path, typer.Option(help="Directory for the drafter.")],
    checkpoint: Annotated[
        Path | None, typer.Option(help="Directory of the policy. Default: the shipped policy.")
    ] = None,
    tokens: Annotated[int, typer.Option(min=1, help="Training tokens; about 1000 per second and core.")] = 1_000_000,
    threads: Annotated[int, typer.Option(min=1, help="CPU threads.")] = 2,
    seed: Annotated[int, typer.Option(help="Seed for the problems and responses.")] = 0,
) -> None:
    """Train a drafter on the policy's own responses. The benchmarks use such a drafter."""
    from countdown import make_drafter as training
    from countdown.model import CHECKPOINT

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
    checkpoint: Annotated[Path, typer.Option(help="Directory of the policy.")],
    count: Annotated[int, typer.Option(min=1, help="Number of problems, with one response each.")] = 384,
    cap: Annotated[int, typer.Option(min=1, help="Maximum response length in tokens.")] = 1024,
    threads: Annotated[int, typer.Option(min=1, help="CPU threads.")] = 2,
) -> None:
    """Measure accuracy and response lengths at temperature 1."""
    import torch

    from countdown import evaluation

    torch.set_num_threads(threads)
    typer.echo(str(evaluation.evaluate(checkpoint, count=count, cap_tokens=cap)))


if __name__ == "__main__":
    app()
