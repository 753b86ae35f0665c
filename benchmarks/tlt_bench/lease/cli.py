"""`tlt bench lease`. Imports no torch before it runs, so that --help stays fast."""

from typing import Annotated

import typer

from tlt_bench.options import Json, Model

PARTS = ("leases", "requests")
LEASES, REPEATS = 200, 60


def lease(
    json: Json = "-",
    part: Annotated[list[str] | None, typer.Option(help="leases or requests; repeatable. Default: both.")] = None,
    model: Model = None,
) -> None:
    """
    Measure how fast a spot trainer takes a lease and returns the device. Takes about 10 minutes.

    Parts: leases granted and revoked at random moments of a trainer process; requests to a training worker compared to
    requests to an idle one, with a real engine.
    """
    from countdown.model import CHECKPOINT
    from tlt_bench.engines.prepare import NO_DRAFTER, BenchTarget, check_parts
    from tlt_bench.lease import requests, taking_back
    from tlt_bench.ratios import Figures

    parts, found = check_parts(part or PARTS, PARTS), Figures()
    policy = BenchTarget(model=model, drafter=NO_DRAFTER).checkpoint or CHECKPOINT
    if "leases" in parts:
        found.merge(taking_back.measure(leases=LEASES, policy=policy))
    if "requests" in parts:
        found.merge(requests.measure(repeats=REPEATS, model=model))
    found.result("lease", repeats=REPEATS).write(json)
