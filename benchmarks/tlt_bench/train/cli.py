"""Options of `tlt bench train`. Imports no torch, so that --help stays fast."""

from typing import Annotated

import typer

from tlt_bench.options import Json


def train(
    json: Json = "-",
    trainers: Annotated[
        bool, typer.Option("--trainers", help="Compare how several trainers learn together instead: 15 minutes.")
    ] = False,
    quick: Annotated[bool, typer.Option("--quick", help="With --trainers: one repeat, 3 minutes.")] = False,
) -> None:
    """
    Measure packs of windows against padded batches, and a trainer's snapshots against blocking saves: 5 minutes.

    Both sides of packing learn from the same windows; reports samples per second and the resulting accept lengths.
    """
    if trainers:
        from tlt_bench.train.together.command import measure as measure_together

        measure_together(quick=quick).write(json)
    else:
        from tlt_bench.train.command import measure

        measure().write(json)
