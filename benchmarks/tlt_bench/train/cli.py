"""Options of `tlt bench train`. Imports no torch, so that --help stays fast."""

from typing import Annotated

import typer


def train(
    json: Annotated[str, typer.Option(metavar="PATH|-", help="Write the JSON object to this file; - is stdout.")] = "-",
) -> None:
    """
    Measure packs of windows against padded batches, and a trainer's snapshots against blocking saves: 5 minutes.

    Both sides of packing learn from the same windows; reports samples per second and what the drafters then predict.
    """
    from tlt_bench.result import check_target
    from tlt_bench.train.command import measure

    check_target(json)
    measure().write(json)
