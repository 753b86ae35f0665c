"""The command `tlt simulate sweep`."""

from pathlib import Path
from typing import Annotated

import typer

from tlt_simulator.cli.inputs import Inputs


def sweep(
    inputs: Inputs,
    over: Annotated[
        list[str],
        typer.Option(
            metavar="KEY=V1,V2,...",
            help="Values of a key, as --set names it; repeat it for all combinations. A value with commas stands in "
            "brackets: engine.arms=[off],[off,chain-3].",
        ),
    ],
    seeds: Annotated[int, typer.Option(help="Number of seeds per combination, starting with --seed.")] = 3,
    results: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write each result to this file as soon as it is complete.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue the file of --results.")] = False,
    processes: Annotated[int | None, typer.Option(help="Concurrent simulations. Default: the number of cores.")] = None,
    json_to: Annotated[
        str, typer.Option("--json", metavar="PATH|-", help="Write the rows as JSON; - for standard output alone.")
    ] = "",
) -> None:
    """
    Simulate all combinations of values, with several seeds each, on all cores.

    A row is marked as best only if it is faster than every other row beyond the noise between seeds. An interrupted
    sweep continues with --results FILE --resume; a file of another scenario is refused.

    For example: tlt simulate sweep --case bytedance-32b --steps 20 --over spot.max_trainers=1,2,4 --over
    gateway.pack_running=0,10 --results sweep.jsonl
    """
    from tlt_simulator.cli import sweep_command

    sweep_command.sweep(
        inputs, over=over, seeds=seeds, results=results, resume=resume, processes=processes, json_to=json_to
    )
