"""Options of `tlt bench forecast`."""

from typing import Annotated

import typer


def forecast(
    json: Annotated[str, typer.Option(metavar="PATH|-", help="Write the JSON object to this file; - is stdout.")] = "-",
) -> None:
    """
    Measure forecasts of response lengths against what came, in virtual time: 2 minutes.

    Steps of 512 responses in groups of 8, over several epochs, from three distributions: one where prompts differ, one
    where they tell nothing, and one that grows from step to step.
    """
    from tlt_bench.forecast.measure import measure
    from tlt_bench.result import check_target

    check_target(json)
    measure().write(json)
