"""`tlt tuner`: evaluate speculation policies."""

from pathlib import Path
from typing import Annotated

import typer

from tlt_common.bandit import BanditConfig

app = typer.Typer(help="Evaluate speculation policies on recorded rounds.", no_args_is_help=True)


@app.callback()
def tuner() -> None:
    """Evaluate speculation policies on recorded rounds."""


@app.command()
def replay(
    trace: Annotated[
        Path, typer.Argument(help="Trace written by a worker (its `trace` key); .gz files are decompressed.")
    ],
    epsilon: Annotated[float | None, typer.Option(min=0, max=1, help="Share of decisions that explore.")] = None,
    window: Annotated[int | None, typer.Option(min=1, help="Rounds remembered per arm.")] = None,
    hold: Annotated[int | None, typer.Option(min=1, help="Rounds that a decision holds.")] = None,
    repeats: Annotated[int, typer.Option(min=1, help="Number of replays, each with a different seed.")] = 10,
    json: Annotated[str, typer.Option(metavar="PATH|-", help="Write a JSON object to this file; - is stdout.")] = "",
) -> None:
    """Replay recorded rounds under a bandit; compare it with the best fixed arm and the best arm per batch size."""
    from dataclasses import replace

    from tlt_bench.replay.reading import read_trace
    from tlt_bench.replay.show import as_json, as_text, put
    from tlt_bench.replay.verdict import hindsight, judge

    base = BanditConfig()
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
