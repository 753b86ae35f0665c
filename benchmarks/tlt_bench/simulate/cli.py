"""Options of `tlt bench simulate`."""

from typing import Annotated

import typer

from tlt_bench.options import Json


def simulate(
    json: Json = "-",
    quick: Annotated[bool, typer.Option("--quick", help="Fewer steps.")] = False,
) -> None:
    """
    Compare `tlt simulate` to a real gateway, coordinator and four workers. Takes about a minute.

    Engines and trainers are scripted with known durations. Reports the error of simulated step durations, and how well
    the simulator predicts when workers are lent.
    """
    from tlt_bench.simulate.measure import measure

    measure(quick=quick).write(json)
