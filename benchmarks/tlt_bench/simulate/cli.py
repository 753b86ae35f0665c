"""Options of `tlt bench simulate`."""

from typing import Annotated

import typer

from tlt_bench.options import Json


def simulate(
    json: Json = "-",
    quick: Annotated[bool, typer.Option("--quick", help="Fewer steps; with --row, one seed.")] = False,
    row: Annotated[
        str | None,
        typer.Option(
            metavar="LABEL",
            help="Simulate this row of `tlt simulate --case paper` instead, with other values of the keys whose "
            "defaults were chosen by simulation, one at a time. Takes about 2 minutes.",
        ),
    ] = None,
) -> None:
    """
    Compare `tlt simulate` to a real gateway, coordinator and four workers. Takes about a minute.

    Engines and trainers are scripted with known durations. Reports the error of simulated step durations, and how well
    the simulator predicts when workers are lent.
    """
    from tlt_bench.simulate import measure, sweeps

    (measure.measure(quick=quick) if row is None else sweeps.measure(row, quick=quick)).write(json)
