"""Options that several benchmarks share."""

from pathlib import Path
from typing import Annotated

import typer


def _checked(target: str) -> str:
    from tlt_bench.result import check_target

    check_target(target)
    return target


Json = Annotated[
    str,
    typer.Option(metavar="PATH|-", callback=_checked, help="Write the JSON object to this file; - is stdout."),
]
"""Destination of the result. Checked before anything is measured."""
Device = Annotated[str, typer.Option(help="auto, cpu or cuda. Timing on a GPU is implemented but untested.")]
Model = Annotated[
    Path | None,
    typer.Option(
        help="Directory of a checkpoint, smollm2 (see `tlt models get`), which is asked word problems, or "
        "demo-shallow: the demo's with its own 4 layers. Default: the demo's, deepened to 24 layers; with --device "
        "cuda, random weights of 7B shape with simulated acceptance."
    ),
]
DrafterOf = Annotated[
    Path | None,
    typer.Option(help="Directory of a drafter for --model, or none. Default: the one that is shipped for the model."),
]
AcceptLength = Annotated[
    float | None,
    typer.Option(
        "--accept-length", help="Simulate accepting this many tokens per round, to time weights that were not trained."
    ),
]
