"""Options of `tlt bench adapt`. Imports no torch, so that --help stays fast."""

from typing import Annotated

import typer


def adapt(
    json: Annotated[str, typer.Option(metavar="PATH|-", help="Write the JSON object to this file; - is stdout.")] = "-",
    part: Annotated[
        list[str] | None, typer.Option(help="learning, shift, kinds, steps or announced; repeatable. Default: all.")
    ] = None,
) -> None:
    """
    Measure how fast a drafter learns, and how far it follows a policy whose prompts change: 25 to 35 minutes.

    Device seconds from scratch to accept lengths of 4 and 5, against the recipe that trainers used at first. After a
    change of prompts: the frozen drafter, the same after one tail of training, and one trained offline. EAGLE, EAGLE-3
    and block drafters after as many device seconds on the same responses, and what rounds of larger models then bring,
    calculated. What limits a drafter over the demo's steps: share of the processor, windows that are cut, responses to
    the next prompts generated ahead; and what a request waits for the latter.
    """
    from tlt_bench.adapt.command import PARTS, measure
    from tlt_bench.engines.prepare import check_parts
    from tlt_bench.result import check_target

    check_target(json)
    measure(tuple(check_parts(part or PARTS, PARTS))).write(json)
