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
def tuner(
    json: Annotated[str, typer.Option(metavar="PATH|-", help="Where the JSON object goes.")] = "-",
    trace: Annotated[Path | None, typer.Option(help="Recorded rounds; else those that come with the package.")] = None,
) -> None:
    """What a choice of the bandit costs, and its regret on recorded rounds, beside the paper's policy. A minute."""
    from tlt_lab.bench.result import check_target
    from tlt_lab.bench.tuner import measure

    check_target(json)
    measure(trace).write(json)


@app.command()
def curves(
    json: Annotated[str, typer.Option(metavar="PATH|-", help="Where the JSON object goes.")] = "-",
    quick: Annotated[bool, typer.Option("--quick", help="Two small steps a run: shows that it works.")] = False,
    seeds: Annotated[int, typer.Option(min=2, help="Runs on each side; three take 42 minutes on 2 cores.")] = 3,
) -> None:
    """Reward of an RL run with drafts and lending, and without, against the spread between seeds."""
    from tlt_lab.bench.curves import measure
    from tlt_lab.bench.result import check_target
    from tlt_lab.bench.talk import Talk

    check_target(json)
    measure(quick=quick, seeds=seeds, watcher=Talk()).write(json)


Device = Annotated[
    str, typer.Option(help="auto, cpu or cuda. Timing on a GPU is written and was not run yet: there was none at hand.")
]
Model = Annotated[
    Path | None,
    typer.Option(
        help="A checkpoint; else the demo's, deepened to 24 layers, and with --device cuda random weights of 7B shape, "
        "whose acceptance is simulated."
    ),
]
DrafterOf = Annotated[Path | None, typer.Option(help="An EAGLE drafter of that model.")]


@app.command()
def engine(
    json: Annotated[str, typer.Option(metavar="PATH|-", help="Where the JSON object goes.")] = "-",
    quick: Annotated[bool, typer.Option("--quick", help="Fewer repeats: about 8 minutes on 2 cores.")] = False,
    device: Device = "auto",
    model: Model = None,
    drafter: DrafterOf = None,
    part: Annotated[list[str] | None, typer.Option(help="off, speed, adaptive or ngram; may be repeated.")] = None,
) -> None:
    """
    What arms cost and bring, in about 25 minutes on 2 quiet cores.

    Off against an engine without speculation, every arm against off, sampled drafts against the drafter's best, the
    bandit against fixed arms over rollouts with a tail, retrieval in groups of 8.
    """
    from tlt_lab.bench.engine import PARTS, measure
    from tlt_lab.bench.prepare import Ground, check_parts
    from tlt_lab.bench.result import check_target

    check_target(json)
    ground = Ground(device=device, model=model, drafter=drafter)
    measure(ground, quick=quick, parts=check_parts(part or PARTS, PARTS)).write(json)


@app.command()
def switch(
    json: Annotated[str, typer.Option(metavar="PATH|-", help="Where the JSON object goes.")] = "-",
    quick: Annotated[bool, typer.Option("--quick", help="Fewer repeats: under 3 minutes on 2 quiet cores.")] = False,
    device: Device = "auto",
    model: Model = None,
    drafter: DrafterOf = None,
) -> None:
    """Rounds lost and tokens computed again when drafts go off and on with requests in flight: about 5 minutes."""
    from tlt_lab.bench.prepare import Ground
    from tlt_lab.bench.result import check_target
    from tlt_lab.bench.switch import measure

    check_target(json)
    measure(Ground(device=device, model=model, drafter=drafter), quick=quick).write(json)


@app.command()
def trace(
    to: Annotated[Path, typer.Argument(help="File for the rounds; one that is there is replaced.")],
    arms: Annotated[str, typer.Option(help="Names with commas between; else those of the trace that is shipped.")] = "",
    quick: Annotated[
        bool, typer.Option("--quick", help="Two small rollouts, 2 minutes: too little for most replays.")
    ] = False,
    device: Device = "auto",
    model: Model = None,
    drafter: DrafterOf = None,
) -> None:
    """
    Record rounds of arms drawn at random, for `tlt tuner replay`: about 5 minutes.

    An engine at work tries an arm only as far as its bandit explores, so that a replay of its own trace knows little of
    the others.
    """
    from tlt_common.domain.strategy import arms_named
    from tlt_common.errors import ConfigError
    from tlt_lab.bench.prepare import Ground
    from tlt_lab.bench.recording import record
    from tlt_lab.bench.tuner import TEN_ARMS
    from tlt_worker.engine.trace import require_writable

    try:
        chosen = arms_named(arms.split(",")) if arms else TEN_ARMS
    except ValueError as error:
        raise ConfigError(f"--arms: {error}", field="arms") from error
    require_writable(to)
    record(to, [arm.name for arm in chosen], Ground(device=device, model=model, drafter=drafter), quick=quick)


if __name__ == "__main__":
    app()
