"""Options of `tlt bench page`."""

from typing import Annotated

import typer


def page(
    json: Annotated[str, typer.Option(metavar="PATH|-", help="Write the JSON object to this file; - is stdout.")] = "-",
) -> None:
    """
    Measure the coordinator's page in Chromium, over simulated fleets of 8, 512 and 10,240 workers: 3 minutes.

    Reports first paint, time per frame while zooming and with live changes, and bytes. Needs Chromium in PATH, or
    TLT_CHROMIUM to be its path.
    """
    from tlt_bench.page.measure import measure
    from tlt_bench.result import check_target

    check_target(json)
    measure().write(json)
