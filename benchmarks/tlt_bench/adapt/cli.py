"""Options of `tlt bench adapt`. Imports no torch, so that --help stays fast."""

from typing import Annotated

import typer


def adapt(
    json: Annotated[str, typer.Option(metavar="PATH|-", help="Write the JSON object to this file; - is stdout.")] = "-",
) -> None:
    """
    Measure how fast a drafter learns, and how far it follows a policy whose prompts change: 20 to 30 minutes.

    Device seconds from scratch to accept lengths of 4 and 5, against the recipe that trainers used at first. After a
    change of prompts: the frozen drafter, the same after one tail of training, and one trained offline. EAGLE and
    EAGLE-3 after as many device seconds on the same responses.
    """
    from tlt_bench.adapt.command import measure
    from tlt_bench.result import check_target

    check_target(json)
    measure().write(json)
