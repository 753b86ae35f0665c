"""`tlt demo-real`. Imports only what its help needs."""

from pathlib import Path
from typing import Annotated

import typer

from countdown.cli import Sampled

app = typer.Typer(add_completion=False)


@app.callback(invoke_without_command=True)
def demo_real(
    context: typer.Context,
    drafter: Annotated[
        str | None,
        typer.Option(metavar="DIR|none", help="Drafter to start with; none starts without. Default: the shipped one."),
    ] = None,
    minutes: Annotated[
        float | None,
        typer.Option(min=1, help="Time for training, start-up included; no step begins that would exceed it."),
    ] = None,
    sampled: Sampled = False,
    out: Annotated[Path, typer.Option(help="Directory for report.html and run.json.")] = Path("reports/demo-real"),
) -> None:
    """
    Train SmolLM2-135M-Instruct on word problems with GRPO, compare every step with TLT on and off, and write a report.

    `tlt models get smollm2` fetches the model. The run starts with the shipped drafter, which idle workers train
    further. Both sides of a step use the same seeds and float32, so they generate the same responses. Takes half an
    hour on 2 cores.
    """
    if context.invoked_subcommand is not None:
        return
    from countdown.main import show
    from word_problems.job import demo_real as job_of
    from word_problems.settings import chosen

    show(job_of(chosen(drafter=drafter, minutes=minutes, sampled=sampled)), out)


@app.command()
def prompts(
    count: Annotated[int, typer.Option(min=1, help="Number of problems.")] = 1000,
    seed: Annotated[int, typer.Option(min=0, max=999_999, help="Seed; those of runs are higher.")] = 0,
) -> None:
    """Print word problems for `tlt drafter collect --prompts`, a JSON object per line."""
    import json

    from word_problems.prompts import conversation
    from word_problems.task import draw_problems

    for problem in draw_problems(count, seed=seed):
        typer.echo(json.dumps({"messages": conversation(problem)}))


if __name__ == "__main__":
    app()
