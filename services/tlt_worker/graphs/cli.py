"""`tlt engine plan`: what an engine would capture and run, without starting it."""

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from tlt_common.bandit import SPECULATE_BELOW_REQUESTS, BanditConfig
from tlt_common.domain.strategy import Arm, arms_named
from tlt_common.errors import ConfigError
from tlt_worker.engine.device import detect, gpu_memory
from tlt_worker.graphs import table5
from tlt_worker.graphs.acceptance import default_arms
from tlt_worker.graphs.engine_plan import EnginePlan, plan_engine
from tlt_worker.graphs.memory import GIB, Memory, cpu_memory_of, gpu_memory_of, machine_memory
from tlt_worker.graphs.plan import plan_graphs
from tlt_worker.graphs.report import as_dict, lines
from tlt_worker.graphs.shape import ELEMENT_BYTES, ModelShape
from tlt_worker.model_config import read_config

app = typer.Typer(help="What an engine would do, without starting it.", no_args_is_help=True)
TABLE5 = "table5"
DEVICES = ("cpu", "cuda")


@app.callback()
def engine() -> None:
    """What an engine would do, without starting it."""


@app.command()
def plan(
    model: Annotated[Path | None, typer.Option(help="Directory of a Hugging Face checkpoint.")] = None,
    arms: Annotated[str, typer.Option(help="Names with commas between, as worker.arms has them.")] = "auto",
    device: Annotated[str, typer.Option(help="cuda or cpu; auto: what is here.")] = "auto",
    memory: Annotated[float | None, typer.Option(help="GiB of each GPU, or of the machine; else what is here.")] = None,
    gpu_share: Annotated[float, typer.Option("--gpu-memory", help="Share of it for weights and cache.")] = 0.8,
    tensor_parallel: Annotated[int, typer.Option(min=1, help="GPUs of one engine.")] = 1,
    max_running: Annotated[int, typer.Option(min=1, help="Most requests decoded at once.")] = 16,
    context_length: Annotated[int | None, typer.Option(min=2, help="Tokens; else the model's.")] = None,
    max_total_tokens: Annotated[int | None, typer.Option(min=1, help="Tokens of cache; else enough.")] = None,
    budget: Annotated[float | None, typer.Option(min=0, help="GiB for graphs; else a share of --memory.")] = None,
    attention: Annotated[
        float, typer.Option(min=0, help="GiB of an attention backend: 0.5 for FlashInfer, 0 for FlashAttention 3.")
    ] = 0.0,
    speculate_below: Annotated[
        int, typer.Option(min=1, help="As worker.speculate_below_requests.")
    ] = SPECULATE_BELOW_REQUESTS,
    group_below: Annotated[
        list[str] | None, typer.Option(metavar="TOKENS=REQUESTS", help="As worker.group_below_requests; repeatable.")
    ] = None,
    dtype: Annotated[str, typer.Option(help="bfloat16, float16 or float32.")] = "bfloat16",
    eagle3: Annotated[bool, typer.Option("--eagle3", help="Plan for a drafter of three states a token.")] = False,
    preset: Annotated[str, typer.Option(help="table5: the case of the TLT paper, instead of a model.")] = "",
    json_to: Annotated[str, typer.Option("--json", metavar="PATH|-", help="One JSON object instead.")] = "",
) -> None:
    """Print which CUDA graphs an engine captures for its arms, their bytes, and what a budget drops."""
    if preset:
        _show_preset(preset, budget, json_to)
        return
    if model is None:
        raise ConfigError("model is missing; accepted: --model DIR, or --preset table5", field="model")
    if dtype not in ELEMENT_BYTES:
        raise ConfigError(f"dtype is {dtype!r}; accepted: {', '.join(ELEMENT_BYTES)}", field="dtype")
    kind = _device(device)
    config = read_config(model)
    planned = plan_engine(
        shape=ModelShape.from_config(config, dtype=dtype, states=3 if eagle3 else 1),
        arms=_arms(arms, kind),
        memory=_memory(kind, memory, share=gpu_share, budget=budget, ranks=tensor_parallel),
        context_length=context_length or int(config["max_position_embeddings"]),
        max_running=max_running,
        max_total_tokens=max_total_tokens,
        tensor_parallel=tensor_parallel,
        attention_workspace=int(attention * GIB),
        thresholds=BanditConfig(speculate_below_requests=speculate_below, group_below_requests=_groups(group_below)),
    )
    _write(_engine_dict(planned, kind), [*_engine_lines(planned, kind)], json_to)


def _show_preset(preset: str, budget: float | None, json_to: str) -> None:
    if preset != TABLE5:
        raise ConfigError(f"preset is {preset!r}; accepted: {TABLE5}", field="preset")
    planned = plan_graphs(table5.question(None if budget is None else int(budget * GIB)))
    paper = {"single": table5.SINGLE_GB, "every arm by itself": table5.NAIVE_GB, "planned": table5.BUCKETED_GB}
    told = "paper, GB: " + ", ".join(f"{name} {value}" for name, value in paper.items())
    _write({**as_dict(planned), "paper_gb": paper}, [*lines(planned), told], json_to)


def _device(name: str) -> str:
    if name == "auto":
        return detect().kind
    if name not in DEVICES:
        raise ConfigError(f"device is {name!r}; accepted: auto, {', '.join(DEVICES)}", field="device")
    return name


def _arms(names: str, device: str) -> tuple[Arm, ...]:
    if names == "auto":
        return default_arms(device)
    try:
        return arms_named([name for name in names.split(",") if name])
    except ValueError as error:
        raise ConfigError(f"arms: {error}", field="arms") from error


def _groups(limits: list[str] | None) -> dict[int, int]:
    found = {}
    for limit in limits or []:
        tokens, _, requests = limit.partition("=")
        if not (tokens.isdigit() and requests.isdigit()):
            raise ConfigError(f"group-below is {limit!r}; accepted: TOKENS=REQUESTS, as 64=4", field="group-below")
        found[int(tokens)] = int(requests)
    return found


def _memory(device: str, given: float | None, *, share: float, budget: float | None, ranks: int) -> Memory:
    if not 0 < share < 1:
        raise ConfigError(f"gpu-memory is {share:g}; accepted: between 0 and 1", field="gpu-memory")
    if given is not None and given <= 0:
        raise ConfigError(f"memory is {given:g} GiB; accepted: above 0", field="memory")
    if device == "cpu":
        return cpu_memory_of(machine_memory() if given is None else int(given * GIB), ranks=ranks)
    seen = gpu_memory() if given is None else [int(given * GIB)]
    if not seen:
        raise ConfigError("memory is not known, since no GPU is here; accepted: --memory GiB of each", field="memory")
    return gpu_memory_of(seen, share=share, graphs=None if budget is None else int(budget * GIB))


def _engine_dict(planned: EnginePlan, device: str) -> dict[str, Any]:
    told = as_dict(planned.plan)
    for arm, entry in zip(planned.plan.arms, told["arms"], strict=True):
        entry["fits_upto"] = planned.most[arm]
    return {"device": device, **told, "attention_bytes": planned.backends, "work_bytes": planned.memory.work}


def _engine_lines(planned: EnginePlan, device: str) -> list[str]:
    told = [*lines(planned.plan)] if device == "cuda" else ["no graphs on a CPU"]
    fits = ", ".join(f"{arm.name} {most}" for arm, most in planned.most.items())
    return [*told, f"fits into {planned.memory.work / GIB:.2f} GiB of work space up to a batch of: {fits}"]


def _write(told: dict[str, Any], shown: list[str], json_to: str) -> None:
    if json_to and json_to != "-":
        try:
            Path(json_to).write_text(json.dumps(told) + "\n")
        except OSError as error:
            raise ConfigError(f"json: {json_to} cannot be written: {error}", field="json") from error
        return
    sys.stdout.write((json.dumps(told) if json_to else "\n".join(shown)) + "\n")
