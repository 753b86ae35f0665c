"""Options of `tlt bench consolidate`."""

from typing import Annotated

import typer


def consolidate(
    json: Annotated[str, typer.Option(metavar="PATH|-", help="Write the JSON object to this file; - is stdout.")] = "-",
    quick: Annotated[bool, typer.Option("--quick", help="Fewer steps: 30 seconds; with --engines 6 minutes.")] = False,
    engines: Annotated[
        bool, typer.Option("--engines", help="With four real engines of the demo instead: 12 minutes.")
    ] = False,
) -> None:
    """
    Measure steps whose requests move in the tail against the same steps without moves, in virtual time: 4 minutes.

    Calculated for a 7B policy on 8 H100 and 512 responses of up to 32,768 tokens: by the cost curve and the forecast,
    as gateways learn them, and by the fixed rule of at most 4 requests per worker.
    """
    from tlt_bench.result import check_target

    check_target(json)
    if engines:
        from tlt_bench.consolidate.engines import measure as on_engines
        from tlt_bench.progress_log import ProgressLog

        on_engines(quick=quick, observer=ProgressLog()).write(json)
        return
    from tlt_bench.consolidate.measure import measure

    measure(quick=quick).write(json)
