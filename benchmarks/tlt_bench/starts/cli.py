"""Options of `tlt bench starts`. Imports no torch, so that --help stays fast."""

from typing import Annotated

import typer

from tlt_bench.options import DrafterOf, Json, Model


def starts(
    json: Json = "-",
    part: Annotated[list[str] | None, typer.Option(help="Run only this case; repeatable. Default: all.")] = None,
    model: Model = None,
    drafter: DrafterOf = None,
) -> None:
    """
    Measure how soon `tlt up` reports the cause of a failing start. Takes about 3 minutes.

    Cases: unsupported checkpoints, options and ports, a server that is not Redis, an engine that dies while loading.

    With --model, measures successful starts instead: seconds to the first token, and the resident memory of an engine
    on the CPU compared to its plan. Takes 4 minutes on 2 cores.
    """
    from tlt_bench.engines.prepare import BenchTarget, check_parts
    from tlt_bench.starts import served
    from tlt_bench.starts.cases import CASES
    from tlt_bench.starts.measure import measure
    from tlt_common.errors import ConfigError

    if model is not None or drafter is not None:
        if part:
            raise ConfigError("--part: accepted without --model only", field="part")
        served.measure(BenchTarget(device="cpu", model=model, drafter=drafter)).write(json)
        return
    names = tuple(case.name for case in CASES)
    measure(check_parts(part or names, names)).write(json)
