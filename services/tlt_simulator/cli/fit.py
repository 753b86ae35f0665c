"""The command `tlt simulate fit`."""

from pathlib import Path
from typing import Annotated

import typer


def fit(
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="Journals of a run: gateway.journal and coordinator.journal.")
    ],
    card: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="GPU, with --model: calculate what the journals do not tell."),
    ] = None,
    model: Annotated[str | None, typer.Option(metavar="NAME|DIR", help="The policy, as for `tlt simulate`.")] = None,
    gpus_per_worker: Annotated[int, typer.Option(help="GPUs of each worker, for --card.")] = 1,
    held_out: Annotated[
        bool,
        typer.Option("--held-out", help="Fit the first half of a recorded comparison, and predict the second."),
    ] = False,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="With --held-out: a key of the suite with which the run was recorded, such as publish.every_tokens. "
            "Repeatable.",
        ),
    ] = None,
    save: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the costs, for `tlt simulate --costs`.")
    ] = None,
    json_to: Annotated[
        str, typer.Option("--json", metavar="PATH|-", help="Write everything as JSON; - for standard output alone.")
    ] = "",
    seed: Annotated[int, typer.Option(help="Seed of all random draws.")] = 0,
) -> None:
    """
    Fit the costs to the journals of a run, with intervals, and report where a simulation would extrapolate.

    If a number has too few rounds, it is named with the number of missing rounds (exit code 2).
    """
    from tlt_simulator.cli import fit_command

    fit_command.fit(
        directory,
        card=card,
        model=model,
        gpus_per_worker=gpus_per_worker,
        held_out=held_out,
        settings=settings or (),
        save=save,
        json_to=json_to,
        seed=seed,
    )
