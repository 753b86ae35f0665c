"""Options of `tlt bench curves`. Imports no torch, so that --help stays fast."""

from typing import Annotated

import typer

from tlt_bench.curves.kind import Kind


def curves(
    json: Annotated[str, typer.Option(metavar="PATH|-", help="Write the JSON object to this file; - is stdout.")] = "-",
    kind: Annotated[Kind, typer.Option(help="What is trained, and how.")] = Kind.GRPO,
    quick: Annotated[bool, typer.Option("--quick", help="Two small steps per run; a smoke test.")] = False,
    seeds: Annotated[int, typer.Option(min=2, help="Runs per side; 3 take 42 minutes on 2 cores with grpo.")] = 3,
) -> None:
    """
    Compare rewards of RL runs with and without speculation and lending, relative to the spread between seeds.

    Kinds: TRL's GRPO; RLOO, REINFORCE++ and GSPO in a loop of plain torch; GRPO on responses that are sampled while the
    policy learns, at most one version old; RLOO on two turns with a program that checks the first answer.
    """
    from tlt_bench.curves.command import measure
    from tlt_bench.progress_log import ProgressLog
    from tlt_bench.result import check_target

    check_target(json)
    measure(kind, quick=quick, seeds=seeds, observer=ProgressLog()).write(json)
