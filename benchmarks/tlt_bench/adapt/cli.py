"""Options of `tlt bench adapt`. Imports no torch, so that --help stays fast."""

from typing import Annotated

import typer

from tlt_bench.options import Json


def adapt(
    json: Json = "-",
    part: Annotated[
        list[str] | None, typer.Option(help="learning, shift or announced; repeatable. Default: all.")
    ] = None,
) -> None:
    """
    Measure how fast a drafter learns, and how far it follows a policy whose prompts change: up to half an hour.

    Device seconds from scratch to accept lengths of 4 and 5, against the recipe that trainers used at first. After a
    change of prompts: the frozen drafter, the same after one tail of training, and one trained offline. What
    a request waits for responses to the next prompts that are generated ahead.
    """
    from tlt_bench.adapt.command import PARTS, measure
    from tlt_bench.engines.prepare import check_parts

    measure(tuple(check_parts(part or PARTS, PARTS))).write(json)
