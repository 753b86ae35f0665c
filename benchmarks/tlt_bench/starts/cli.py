"""Options of `tlt bench starts`. Imports no torch, so that --help stays fast."""

from typing import Annotated

import typer


def starts(
    json: Annotated[str, typer.Option(metavar="PATH|-", help="Write the JSON object to this file; - is stdout.")] = "-",
    part: Annotated[list[str] | None, typer.Option(help="Run only this case; repeatable. Default: all.")] = None,
) -> None:
    """
    Measure how soon `tlt up` names the cause of a start that fails, in about 3 minutes.

    Cases: checkpoints that no engine runs, options and ports, a Redis that is none, an engine that dies as it loads.
    """
    from tlt_bench.engines.prepare import check_parts
    from tlt_bench.result import check_target
    from tlt_bench.starts.cases import CASES
    from tlt_bench.starts.measure import measure

    check_target(json)
    names = tuple(case.name for case in CASES)
    measure(tuple(check_parts(part or names, names))).write(json)
