"""The `tlt simulate` app: its commands and their options. What they need is heavy and imported when they run."""

from pathlib import Path
from typing import Annotated

import typer

from tlt_simulator.cli.inputs import Inputs, takes_inputs

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
  tlt simulate --lengths lognormal:median=5000,p99=30000,cap=32768 --card h100 --gpus 32
               --gpus-per-worker 4 --model 32b --drafter public --max-staleness 1
  tlt simulate --case bytedance-32b --json result.json
  tlt simulate sweep --case bytedance-32b --steps 20 --over spot.max_trainers=1,2,4
  tlt simulate fit ./journal --save costs.json
"""

app = typer.Typer(add_completion=False, no_args_is_help=True)


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


def cases(
    name: Annotated[str, typer.Argument(metavar="[NAME]", help="Describe this one. Default: list all.")] = "",
    held_out: Annotated[
        bool,
        typer.Option(
            "--held-out",
            help="Print instead how well rounds are calculated: every published speedup that no cost was fitted to, "
            "the errors, and how many are within their intervals.",
        ),
    ] = False,
) -> None:
    """List the published runs that can be simulated, or describe one: its published facts and the assumptions."""
    from tlt_common.errors import ConfigError
    from tlt_simulator.cases import CASES, case

    if held_out:
        if name:
            raise ConfigError(f"--held-out and {name!r}: accepted: one of them", field="held_out")
        _held_out()
        return
    if not name:
        for known in CASES:
            print(known)
        return
    found = case(name)
    print(f"{found.name}: {found.title}")
    for row in found.rows:
        print(f"  {row.label}: {row.published:g} published ({row.measure.value})")
    for note in found.notes:
        print(f"  {note}")


def _held_out() -> None:
    from tlt_simulator.costs.compared import Measured, compared, errors_of

    rows = compared()
    shown = [row for row in rows if row.measured is Measured.HELD_OUT]
    width = max(len(row.what) for row in shown)
    print(f"{Measured.HELD_OUT.value:{width}}  published  calculated  90 % interval   error")
    for row in shown:
        ends = f"{row.interval.low:.2f} to {row.interval.high:.2f}" if row.interval else ""
        print(f"{row.what:{width}}  {row.published:9.2f}  {row.calculated:10.2f}  {ends:>13}  {row.error:+6.1%}")
    print()
    for measured in Measured:
        errors = errors_of([row for row in rows if row.measured is measured])
        within = "" if errors.coverage is None else f", {errors.coverage:.0%} within their intervals"
        print(f"{measured.value}: {errors.rows}; error: mean {errors.mean:.1%}, worst {errors.worst:.1%}{within}")


app.callback(invoke_without_command=True, help=HELP)(takes_inputs(_simulate))
app.command("sweep", short_help="Simulate all combinations of values of some keys.")(takes_inputs(sweep))
app.command("fit", short_help="Fit the costs to the journals of a run.")(fit)
app.command("cases", short_help="List the published runs, or describe one.")(cases)
