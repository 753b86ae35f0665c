"""Options for the simulated run: trace, machines, RL trainer, and the suite's configuration."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from tlt_common.errors import ConfigError

OF_A_CASE = frozenset({"--case", "--row", "--steps", "--set", "--seed", "--drafter"})
"""Options that go together with --case, which has all others itself."""
DRAFTERS = "public, none, or trained=TOKENS, the tokens of this policy that it learned from"
OF_MACHINES = frozenset({"--card", "--model", "--gpus", "--costs"})
"""Options that name machines other than those of a journal."""
OF_A_JOURNAL = frozenset({"--trace", "--form", "--steps", "--set", "--seed"})
"""Options that go together with a journal and its machines."""
NEEDS = {
    "--row": "--case",
    "--form": "--trace",
    "--cap": "--trace",
    "--tokenizer": "--trace",
    "--prompts": "--lengths",
}
"""Options that require another option."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """Values of the options; None if not given."""

    case: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="A published run; `tlt simulate cases` lists them."),
    ] = None
    row: Annotated[
        str | None,
        typer.Option(metavar="LABEL", help="The row to simulate, for a case with several."),
    ] = None
    trace: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH",
            help="The log of an RL run: what trainers write (docs/traces.md), a journal of the suite, a public trace "
            "of serving, or CSV and JSONL of lengths. Texts in it are not kept. A journal is simulated on its own "
            "machines, unless others are named.",
        ),
    ] = None
    form: Annotated[
        str | None,
        typer.Option(metavar="FORM", help="Form of --trace. Default: found out from its files."),
    ] = None
    cap: Annotated[
        int | None,
        typer.Option(help="Maximum tokens of a response in --trace. Default: as it says, or its longest response."),
    ] = None
    tokenizer: Annotated[
        str | None,
        typer.Option(
            metavar="PATH", help="tokenizer.json or its directory, for a --trace that has texts without lengths."
        ),
    ] = None
    lengths: Annotated[
        str | None,
        typer.Option(
            metavar="SPEC",
            help="Draw lengths instead: lognormal:median=5000,p99=30000,cap=32768 or "
            "quantiles:p50=5000,p90=15000,p99=30000,cap=32768.",
        ),
    ] = None
    prompts: Annotated[int | None, typer.Option(help="With --lengths: prompts per step. Default: 128.")] = None
    group: Annotated[
        int | None,
        typer.Option(help="Responses per prompt. Default: those of --trace; 8 with --lengths."),
    ] = None
    steps: Annotated[
        int | None,
        typer.Option(help="Steps to simulate. Default: all of --trace or of the case; 20 with --lengths."),
    ] = None
    card: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="GPU: a100-80, h100, h200 or b200."),
    ] = None
    model: Annotated[
        str | None,
        typer.Option(
            metavar="NAME|DIR",
            help="Policy: 7b, 14b, 32b, 70b, 30b-a3b, a model of `tlt engine plan`, or a directory with a config.json.",
        ),
    ] = None
    gpus: Annotated[int | None, typer.Option(help="Total number of GPUs for rollouts.")] = None
    gpus_per_worker: Annotated[
        int | None,
        typer.Option(help="GPUs per worker: tensor parallelism. Default: 1."),
    ] = None
    slots: Annotated[
        int | None,
        typer.Option(help="Concurrent requests per worker (engine.max_running). Default: 256."),
    ] = None
    kv_room: Annotated[
        int | None,
        typer.Option(
            metavar="TOKENS",
            help="Tokens in a worker's KV cache, on both sides. Default: what `tlt engine plan` leaves of "
            "--card's memory for --model, on each side by itself.",
        ),
    ] = None
    costs: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Costs written by `tlt simulate fit --save`. Default: calculated for --card and --model.",
        ),
    ] = None
    calibrate: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH",
            help="Replace calculated costs by measured ones: figures of `make gpu`, or the output of SGLang's "
            "bench_one_batch or bench_serving on this machine.",
        ),
    ] = None
    learn_s: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS", help="Time from a step's last response to the new weights. Default: that of --trace."
        ),
    ] = None
    rollout_share: Annotated[
        float | None,
        typer.Option(
            metavar="SHARE",
            help="Instead of --learn-s: share of a step that rollouts take without the suite, from 0 to 1. Default, if "
            "--trace has no times: 0.85, assumed.",
        ),
    ] = None
    colocated: Annotated[
        bool | None,
        typer.Option(
            "--colocated/--separate",
            help="Where the RL trainer learns. --separate: on GPUs of its own, so that rollout GPUs "
            "train drafters meanwhile. --colocated: on the rollout GPUs, as TltRollouts(colocated=True) does. Default: "
            "separate.",
        ),
    ] = None
    max_staleness: Annotated[
        int | None,
        typer.Option(
            metavar="K",
            help="Simulate an asynchronous RL trainer, which learns from responses of weights at most K versions old "
            "while rollouts go on, through updates of the weights. Default: 0, a synchronous trainer.",
        ),
    ] = None
    drafter: Annotated[
        str | None,
        typer.Option(
            metavar="none|public|trained=TOKENS",
            help="The drafter that the run begins with: none; a public EAGLE drafter; or one that was made for this "
            "policy and has learned from this many of its tokens. Required; --case has its own.",
        ),
    ] = None
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Set a key: of the suite, as `tlt up --set` takes it or without the service, such as "
            "spot.max_trainers; of the fleet (fleet.workers); trainer.learn_s; or a cost (costs.ageing). Repeatable.",
        ),
    ] = None
    seed: Annotated[int, typer.Option(help="Seed of all random draws.")] = 0

    @property
    def brings_machines(self) -> bool:
        """Whether the log is a journal of the suite, and no option names machines: then those of the journal count."""
        if self.trace is None or not self.trace.is_dir() or OF_MACHINES & set(self.given):
            return False
        from tlt_common.journal.files import files_in  # imports pydantic, which --help does without

        return any(file.service == "gateway" for file in files_in(self.trace))

    @property
    def given(self) -> tuple[str, ...]:
        """Names of the options that were given."""
        return tuple(option(field.name) for field in fields(self) if getattr(self, field.name) != field.default)


def option(name: str) -> str:
    """Return the command-line option of a field."""
    return "--set" if name == "settings" else f"--{name.replace('_', '-')}"


def takes_inputs(command: Callable[..., None]) -> Callable[..., None]:
    """Decorate a command with all options of `Inputs`, passed as its first argument."""
    own = inspect.signature(command)
    first, *rest = own.parameters.values()
    hints = get_type_hints(Inputs, include_extras=True)
    keyword = inspect.Parameter.KEYWORD_ONLY
    options = [
        inspect.Parameter(field.name, keyword, default=field.default, annotation=hints[field.name])
        for field in fields(Inputs)
    ]
    kept = [parameter.replace(kind=keyword) for parameter in rest]

    @wraps(command)
    def called(**values: Any) -> None:
        named = {field.name: values.pop(field.name) for field in fields(Inputs)}
        command(Inputs(**named), **values)

    called.__signature__ = own.replace(parameters=[*options, *kept])  # type: ignore[attr-defined]
    own_hints = get_type_hints(command, include_extras=True)
    own_hints.pop(first.name)
    called.__annotations__ = {**{parameter.name: parameter.annotation for parameter in options}, **own_hints}
    return called


def check(inputs: Inputs) -> None:
    """
    Check the options, before anything is read.

    Raises:
        ConfigError: Options are missing, conflict, or are not accepted.
    """
    _check_source(inputs)
    _check_numbers(inputs)
    if inputs.brings_machines:
        if wrong := [name for name in inputs.given if name not in OF_A_JOURNAL]:
            accepted = ", ".join(sorted(OF_A_JOURNAL))
            raise ConfigError(
                f"{wrong[0]}: the machines and costs of --trace {inputs.trace} are fitted to it; accepted: {accepted}, "
                "or --gpus with other machines",
                field="trace",
            )
    elif inputs.case is None:
        _check_machines(inputs)


def _check_source(inputs: Inputs) -> None:
    sources = [name for name in ("case", "trace", "lengths") if getattr(inputs, name) is not None]
    if len(sources) != 1:
        given = f"not {' and '.join(f'--{name}' for name in sources)} together" if sources else "one is required"
        raise ConfigError(f"--case NAME, --trace PATH or --lengths SPEC: {given}", field="trace")
    wrong = [name for name in inputs.given if name not in OF_A_CASE] if inputs.case is not None else []
    if wrong:
        accepted = ", ".join(sorted(OF_A_CASE))
        raise ConfigError(f"{wrong[0]}: not with --case, which has its own; accepted: {accepted}", field="case")
    for name, needed in NEEDS.items():
        if name in inputs.given and needed not in inputs.given:
            raise ConfigError(f"{name}: only with {needed}", field=name.lstrip("-"))
    if inputs.learn_s is not None and inputs.rollout_share is not None:
        raise ConfigError("--learn-s and --rollout-share: accepted: one of them", field="learn_s")
    if inputs.costs is not None and inputs.calibrate is not None:
        raise ConfigError("--costs and --calibrate: accepted: one of them", field="costs")


def _check_numbers(inputs: Inputs) -> None:
    for name in ("prompts", "group", "steps", "gpus", "gpus_per_worker", "slots", "kv_room"):
        value = getattr(inputs, name)
        if value is not None and value < 1:
            raise ConfigError(f"--{name.replace('_', '-')} is {value}; accepted: at least 1", field=name)
    if inputs.max_staleness is not None and inputs.max_staleness < 0:
        raise ConfigError(f"--max-staleness is {inputs.max_staleness}; accepted: at least 0", field="max_staleness")
    if inputs.learn_s is not None and inputs.learn_s < 0:
        raise ConfigError(f"--learn-s is {inputs.learn_s:g}; accepted: at least 0", field="learn_s")
    if inputs.rollout_share is not None and not 0 < inputs.rollout_share <= 1:
        raise ConfigError(
            f"--rollout-share is {inputs.rollout_share:g}; accepted: above 0, at most 1", field="rollout_share"
        )
    if inputs.drafter is None and inputs.case is None and not inputs.brings_machines:
        raise ConfigError(f"--drafter is required; accepted: {DRAFTERS}", field="drafter")


def _check_machines(inputs: Inputs) -> None:
    if inputs.gpus is None:
        raise ConfigError("--gpus is required: the total number of GPUs for rollouts", field="gpus")
    each = inputs.gpus_per_worker or 1
    if inputs.gpus % each:
        raise ConfigError(f"--gpus is {inputs.gpus}; accepted: a multiple of --gpus-per-worker, {each}", field="gpus")
    for name in ("card", "model"):
        if getattr(inputs, name) is None and (inputs.costs is None or inputs.kv_room is None):
            instead = "--costs and --kv-room instead" if inputs.costs is None else "--kv-room instead"
            raise ConfigError(f"--{name} is required; accepted: {instead}", field=name)
