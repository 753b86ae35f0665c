"""Options of `tlt bench neighbor`. Imports no torch, so that --help stays fast."""

from pathlib import Path
from typing import Annotated

import typer

from tlt_bench.options import Json


def neighbor(
    json: Json = "-",
    quick: Annotated[bool, typer.Option("--quick", help="Start each suite once, with shorter turns.")] = False,
    model: Annotated[
        Path | None, typer.Option(help="Directory of a checkpoint. Default: the demo's, deepened to 24 layers.")
    ] = None,
) -> None:
    """
    Measure the CPU share of a program in another Linux session next to a suite of two workers. Takes 10 minutes on 2
    cores.

    A busy loop runs while both spot trainers train, and while the suite is idle, with `trainer.own_session` and
    without, in turns. Reports its share of a core, how long `sleep 3` takes, and the idle suite's own usage.
    """
    from tlt_bench.neighbor.measure import FULL, QUICK, measure

    measure(model, QUICK if quick else FULL).write(json)
