"""`tlt tuner`: what the tuner's decisions were worth."""

from pathlib import Path
from typing import Annotated

import typer

from tlt_common.bandit import PAPER, BanditConfig, Judge

app = typer.Typer(help="Look into what speculation is chosen.", no_args_is_help=True)


@app.callback()
def tuner() -> None:
    """Look into what speculation is chosen."""


@app.command()
def replay(
    trace: Annotated[Path, typer.Argument(help="As a worker writes it (its `trace` key); .gz is unpacked.")],
    policy: Annotated[Judge, typer.Option(help="parts: the engine's own; paper: BEG-MAB as published.")] = Judge.PARTS,
    epsilon: Annotated[float | None, typer.Option(min=0, max=1, help="Share of choices that explore.")] = None,
    window: Annotated[int | None, typer.Option(min=1, help="Rounds remembered per arm.")] = None,
    hold: Annotated[int | None, typer.Option(min=1, help="Rounds a choice lasts.")] = None,
    repeats: Annotated[int, typer.Option(min=1, help="Replays, each with another seed.")] = 10,
    json: Annotated[str, typer.Option(metavar="PATH|-", help="Write a JSON object, to stdout if it is -.")] = "",
) -> None:
    """Replay recorded rounds with a bandit in charge; compare it with the best fixed arm and the best per batch."""
    from dataclasses import replace

    from tlt_tuner.replay.reading import read_trace
    from tlt_tuner.replay.show import as_json, as_text, put
    from tlt_tuner.replay.verdict import hindsight, judge

    base = PAPER if policy == Judge.PAPER else BanditConfig()
    config = replace(
        base,
        epsilon=base.epsilon if epsilon is None else epsilon,
        window=window or base.window,
        hold_rounds=hold or base.hold_rounds,
    )
    known = hindsight(read_trace(trace).rounds, repeats=repeats)
    verdict = judge(known, config, repeats=repeats)
    if json != "-":
        typer.echo(as_text(known, verdict))
    if json:
        put(json, as_json(known, verdict))


if __name__ == "__main__":
    app()
