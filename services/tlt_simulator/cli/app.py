"""The `tlt simulate` app and its commands."""

from pathlib import Path
from typing import Annotated

import typer

from tlt_simulator.cli.cases import cases
from tlt_simulator.cli.fit import fit
from tlt_simulator.cli.inputs import Inputs, takes_inputs
from tlt_simulator.cli.sweep import sweep

HELP = """
Simulate an RL run with and without the suite, on machines that you do not have.

The responses come from the log of a run (--trace), a distribution (--lengths) or a published run (--case). The costs
of rounds are calculated for a GPU and a model, or measured. Time is virtual. Lending, drafting and publication are
decided by the same code as in production. Every output states which numbers were measured, fitted, published,
calculated or assumed.

\b
Examples:
  tlt simulate --trace ./rollouts --card h100 --gpus 32 --gpus-per-worker 4 --model 32b
               --drafter public
  tlt simulate --lengths lognormal:median=5000,p99=30000,cap=32768 --card h200 --gpus 8
               --model 7b --drafter none --html page.html
  tlt simulate --case bytedance-32b --json result.json
  tlt simulate sweep --case bytedance-32b --steps 20 --over spot.max_trainers=1,2,4
  tlt simulate fit ./journal --save costs.json
"""

app = typer.Typer(add_completion=False, no_args_is_help=True)
app.command("sweep", short_help="Simulate all combinations of values of some keys.")(takes_inputs(sweep))
app.command("fit", short_help="Fit the costs to the journals of a run.")(fit)
app.command("cases", short_help="List the published runs, or describe one.")(cases)


def _simulate(
    inputs: Inputs,
    context: typer.Context,
    json_to: Annotated[
        str, typer.Option("--json", metavar="PATH|-", help="Write everything as JSON; - for standard output alone.")
    ] = "",
    html: Annotated[Path | None, typer.Option(metavar="PAGE", help="Write everything as one HTML page.")] = None,
    numbers: Annotated[
        bool, typer.Option("--numbers", help="List every number that the simulation uses, with its source.")
    ] = False,
    quick: Annotated[
        bool,
        typer.Option("--quick", help="Simulate the run alone, with a rough interval: no sensitivity, nothing to set."),
    ] = False,
    sample: Annotated[
        int | None,
        typer.Option(
            metavar="STEPS",
            help="Steps on which variants are simulated, for intervals, sensitivity and what to set. Default: as many "
            "as take a few minutes.",
        ),
    ] = None,
    processes: Annotated[
        int | None, typer.Option(help="Variants simulated concurrently. Default: the number of cores.")
    ] = None,
) -> None:
    from tlt_common.errors import ConfigError

    if context.invoked_subcommand is not None:
        if inputs.given:
            raise ConfigError(
                f"{inputs.given[0]} precedes {context.invoked_subcommand}; accepted: options after the command",
                field=inputs.given[0].lstrip("-"),
            )
        return
    from tlt_simulator.cli import command

    command.simulate(
        inputs, json_to=json_to, html=html, numbers=numbers, quick=quick, sample=sample, processes=processes
    )


app.callback(invoke_without_command=True, help=HELP)(takes_inputs(_simulate))
