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
    Measure how fast a drafter learns and how well it follows a policy whose prompts change. Takes up to half an hour.

    Measures device seconds from scratch to accept lengths of 4 and 5, compared to the trainers' first recipe. After a
    change of prompts: the accept length of the frozen drafter, of the same drafter after one tail of training, and of
    one trained offline. Also the delay that responses generated ahead cause for a request.
    """
    from tlt_bench.adapt.command import PARTS, measure
    from tlt_bench.engines.prepare import check_parts

    measure(tuple(check_parts(part or PARTS, PARTS))).write(json)
