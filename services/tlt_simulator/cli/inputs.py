"""Options for the simulated run: trace, machines, RL trainer, and the suite's configuration."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer


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
            "of serving, or CSV and JSONL of lengths. Texts in it are not kept.",
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
            help="Tokens in a worker's KV cache. Default: as `tlt engine plan` calculates for --card and --model.",
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
            help="Whether the RL trainer learns on the rollout GPUs or on others, so that the former "
            "train drafters meanwhile. Default: colocated.",
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
