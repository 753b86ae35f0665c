"""Options of `tlt bench simulate`."""

from typing import Annotated

import typer

from tlt_bench.options import Json


def simulate(
    json: Json = "-",
    quick: Annotated[bool, typer.Option("--quick", help="Fewer steps.")] = False,
) -> None:
    """
    Compare `tlt simulate` with a real gateway, coordinator and four workers, in about a minute.

    Engines and trainers are scripted: they take known times. Reports by how much simulated steps are longer or shorter,
    and how well the simulator says when workers are lent.
    """
    from tlt_bench.simulate.measure import measure

    measure(quick=quick).write(json)
