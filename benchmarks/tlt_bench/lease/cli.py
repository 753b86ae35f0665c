"""Options of `tlt bench lease`. Imports no torch, so that --help stays fast."""

from typing import Annotated

import typer

from tlt_bench.options import Json, Model


def lease(
    json: Json = "-",
    part: Annotated[
        list[str] | None,
        typer.Option(help="leases or requests; repeatable. Default: both."),
    ] = None,
    model: Model = None,
) -> None:
    """
    Measure how fast a spot trainer takes up a lease and gives the device back, in about 10 minutes.

    Parts: leases granted and revoked at random moments of a trainer process; requests that find their worker training
    against ones that find it idle, with a real engine.
    """
    from tlt_bench.engines.prepare import check_parts
    from tlt_bench.lease.command import PARTS, measure

    measure(check_parts(part or PARTS, PARTS), model=model).write(json)
