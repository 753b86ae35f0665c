"""What `tlt engine plan` prints."""

import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tlt_common.config.loader import load
from tlt_common.drafter.architecture import DrafterArchitecture
from tlt_common.drafter.reading import format_of
from tlt_common.errors import ConfigError, WeightsError
from tlt_worker.capacity import table5
from tlt_worker.capacity.engine_plan import EnginePlan, plan_engine
from tlt_worker.capacity.memory import GIB, Memory, cpu_memory_of, gpu_memory_of, machine_memory
from tlt_worker.capacity.plan import plan_graphs
from tlt_worker.capacity.report import as_dict, lines
from tlt_worker.capacity.shape import ModelShape
from tlt_worker.config import WorkerConfig
from tlt_worker.engine.device import detect, gpu_memory
from tlt_worker.engine_config import EngineConfig
from tlt_worker.model_config import read_config

TABLE5 = "table5"
DEVICES = ("cpu", "cuda")
EAGLE3_STATES = 3
"""Hidden states of the target that an EAGLE-3 drafter reads per token."""


def show_plan(
    config: Path | None,
    settings: Sequence[str],
    *,
    device: str,
    memory: float | None,
    attention: float,
    json_to: str,
) -> None:
    """
    Print the plan for a worker's configuration.

    Raises:
        ConfigError: A key or an option is not accepted, or an arm cannot run.
    """
    worker = load(WorkerConfig, "worker", file=config, environment=os.environ, settings=settings)
    kind, model = _device(device), read_config(worker.model)
    states = _states(worker.engine, model)
    planned = plan_engine(
        worker.engine,
        device=kind,
        shape=ModelShape.from_config(model, dtype=worker.engine.dtype, states=states),
        memory=_memory(kind, memory, worker.engine),
        context_length=worker.engine.context_for(model),
        attention_workspace=int(attention * GIB),
    )
    _write(_engine_dict(planned, kind), [*_engine_lines(planned, kind)], json_to)


def show_preset(preset: str, budget: float | None, json_to: str) -> None:
    """
    Print the plan of a predefined case beside the paper's figures.

    Raises:
        ConfigError: There is no such case.
    """
    if preset != TABLE5:
        raise ConfigError(f"--preset is {preset!r}; accepted: {TABLE5}", field="preset")
    planned = plan_graphs(table5.question(None if budget is None else int(budget * GIB)))
    paper = {"single": table5.SINGLE_GB, "every arm by itself": table5.NAIVE_GB, "planned": table5.BUCKETED_GB}
    paper_line = "paper, GB: " + ", ".join(f"{name} {value}" for name, value in paper.items())
    _write({**as_dict(planned), "paper_gb": paper}, [*lines(planned), paper_line], json_to)


def _device(name: str) -> str:
    if name == "auto":
        return detect().kind
    if name not in DEVICES:
        raise ConfigError(f"--device is {name!r}; accepted: auto, {', '.join(DEVICES)}", field="device")
    return name


def _states(engine: EngineConfig, model: Mapping[str, Any]) -> int:
    if engine.drafter is None:
        return EAGLE3_STATES if engine.drafter_architecture == DrafterArchitecture.EAGLE3 else 1
    try:
        return max(1, len(format_of(read_config(engine.drafter), model).layers))
    except (ConfigError, WeightsError) as error:
        raise ConfigError(f"engine.drafter: {error.message}", field="engine.drafter") from error


def _memory(device: str, given: float | None, engine: EngineConfig) -> Memory:
    if given is not None and given <= 0:
        raise ConfigError(f"--memory is {given:g} GiB; accepted: above 0", field="memory")
    if device == "cpu":
        machine = machine_memory() if given is None else int(given * GIB)
        return cpu_memory_of(machine, ranks=engine.tensor_parallel)
    seen = gpu_memory() if given is None else [int(given * GIB)]
    if not seen:
        raise ConfigError("--memory is required, since this machine has no GPU; accepted: GiB per GPU", field="memory")
    return gpu_memory_of(seen, share=engine.gpu_memory, graphs=engine.graph_bytes)


def _engine_dict(planned: EnginePlan, device: str) -> dict[str, Any]:
    entries = as_dict(planned.plan)
    for arm, entry in zip(planned.plan.arms, entries["arms"], strict=True):
        entry["fits_upto"] = planned.max_batch[arm]
    return {"device": device, **entries, "attention_bytes": planned.backends, "work_bytes": planned.memory.work}


def _engine_lines(planned: EnginePlan, device: str) -> list[str]:
    entries = [*lines(planned.plan)] if device == "cuda" else ["no graphs on a CPU"]
    fits = ", ".join(f"{arm.name} {batch}" for arm, batch in planned.max_batch.items())
    return [*entries, f"largest batch that fits into {planned.memory.work / GIB:.2f} GiB of workspace: {fits}"]


def _write(entries: dict[str, Any], shown: list[str], json_to: str) -> None:
    if json_to and json_to != "-":
        try:
            Path(json_to).write_text(json.dumps(entries) + "\n")
        except OSError as error:
            raise ConfigError(f"--json: {json_to} cannot be written: {error}", field="json") from error
        return
    sys.stdout.write((json.dumps(entries) if json_to else "\n".join(shown)) + "\n")
