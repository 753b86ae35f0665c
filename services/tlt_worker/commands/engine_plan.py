"""Output of `tlt engine plan`."""

import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tlt_common.config.loader import load
from tlt_common.errors import ConfigError
from tlt_worker.capacity.attention import Heads
from tlt_worker.capacity.cpu_plan import cpu_rows
from tlt_worker.capacity.engine_plan import EnginePlan, plan_engine, plan_on_gpus
from tlt_worker.capacity.memory.gpu_plan import Gpus
from tlt_worker.capacity.memory.memory import GIB, cpu_memory_of, machine_memory
from tlt_worker.capacity.memory.table import Row
from tlt_worker.capacity.profile import Accelerator, profile_of
from tlt_worker.capacity.shape import ModelShape
from tlt_worker.checkpoints.drafter_format import drafter_format
from tlt_worker.checkpoints.model_config import read_config
from tlt_worker.checkpoints.own_head import with_architecture
from tlt_worker.commands import plan_check, round_plan
from tlt_worker.commands.cards import CARDS, CONFIGS, SHAPE_CONTEXT, card
from tlt_worker.commands.report import as_dict, gib_of, lines, memory_of, table_lines
from tlt_worker.config import WorkerConfig
from tlt_worker.engine.device import detect, gpu_memory
from tlt_worker.model.families import listed

DEVICES = ("cpu", "cuda")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The device and model to plan for, as selected by options."""

    device: str = "auto"
    memory: float | None = None
    card: str = ""
    shape: str = ""

    @property
    def accelerator(self) -> Accelerator:
        """
        Properties of the device for its profile.

        Raises:
            ConfigError: An option names no device or card.
        """
        if self.card:
            if self.card not in CARDS:
                raise ConfigError(f"--card is {self.card!r}; accepted: {', '.join(CARDS)}", field="card")
            return card(self.card)[1]
        if self.device == "auto":
            return detect().accelerator
        if self.device not in DEVICES:
            raise ConfigError(f"--device is {self.device!r}; accepted: auto, {', '.join(DEVICES)}", field="device")
        seen = detect().accelerator
        return seen if seen.kind == self.device else Accelerator(kind=self.device)

    def gpu_bytes(self) -> int:
        """
        Return the memory of one GPU.

        Raises:
            ConfigError: The memory is unknown or not positive.
        """
        if self.memory is not None:
            return int(self.memory * GIB)
        if self.card:
            return card(self.card)[0]
        if not (seen := gpu_memory()):
            raise ConfigError(
                "--memory is required, since this machine has no GPU; accepted: GiB per GPU, or --card", field="memory"
            )
        return min(seen)


def show_check(config: Path | None, settings: Sequence[str], wanted: Wanted, source: str, *, json_to: str) -> bool:
    """
    Compare a plan's bytes with SGLang's allocations, print the comparison, and return whether they agree.

    Raises:
        ConfigError: A key or an option is not accepted, or SGLang cannot build the model.
    """
    settings = (f"model={source}", *settings)
    worker = load(WorkerConfig, "worker", file=config, environment=os.environ, settings=settings)
    dtype = worker.engine.dtype or wanted.accelerator.dtype
    return plan_check.show_check(source, worker.engine, dtype, json_to)


def show_rounds(config: Path | None, settings: Sequence[str], wanted: Wanted, *, json_to: str) -> None:
    """
    Print the duration of a round for each kind of drafter.

    Raises:
        ConfigError: A key or an option is not accepted, or no card is named.
    """
    worker, model = _planned(config, settings, wanted)
    profile = profile_of(worker.engine, wanted.accelerator, family=listed(model), heads=Heads.from_config(model))
    rounds = round_plan.planned_rounds(worker.engine, model, wanted.card, profile.dtype)
    round_plan.show_rounds(rounds, wanted.card, json_to)


def _planned(config: Path | None, settings: Sequence[str], wanted: Wanted) -> tuple[WorkerConfig, Mapping[str, Any]]:
    """Return a worker's configuration and its model's config.json."""
    if not wanted.shape:
        worker = load(WorkerConfig, "worker", file=config, environment=os.environ, settings=settings)
        return worker, read_config(worker.model)
    if wanted.shape not in CONFIGS:
        raise ConfigError(f"--model-shape is {wanted.shape!r}; accepted: {', '.join(CONFIGS)}", field="model_shape")
    settings = (f"model={wanted.shape}", *settings)
    return load(WorkerConfig, "worker", file=config, environment=os.environ, settings=settings), CONFIGS[wanted.shape]


def show_plan(config: Path | None, settings: Sequence[str], wanted: Wanted, *, json_to: str) -> None:
    """
    Print the plan for a worker's configuration.

    Raises:
        ConfigError: A key or an option is not accepted, or an arm cannot run.
    """
    _write(*_plan(*_planned(config, settings, wanted), wanted), json_to)


def plan_lines(worker: WorkerConfig, *, device: str = "auto") -> list[str]:
    """
    Return the plan of a worker on this machine as text.

    Raises:
        ConfigError: An arm cannot run.
    """
    return _plan(worker, read_config(worker.model), Wanted(device=device))[1]


def _plan(worker: WorkerConfig, model: Mapping[str, Any], wanted: Wanted) -> tuple[dict[str, Any], list[str]]:
    """Return a plan as plain values and as text."""
    engine = worker.engine
    if wanted.memory is not None and wanted.memory <= 0:
        raise ConfigError(f"--memory is {wanted.memory:g} GiB; accepted: above 0", field="memory")
    if not wanted.shape:
        engine = with_architecture(engine, worker.model)
    form = drafter_format(engine, model)
    profile = profile_of(engine, wanted.accelerator, family=listed(model), heads=Heads.from_config(model), drafter=form)
    shape = ModelShape.from_config(model, dtype=profile.dtype, drafter=form)
    context = engine.context_length or SHAPE_CONTEXT if wanted.shape else engine.context_for(model)
    if profile.accelerator.kind == "cpu":
        machine = machine_memory() if wanted.memory is None else int(wanted.memory * GIB)
        memory = cpu_memory_of(machine, ranks=engine.tensor_parallel)
        planned = plan_engine(engine, profile=profile, shape=shape, memory=memory, context_length=context)
        kept = cpu_rows(engine, shape, planned, context_length=context)
    else:
        gpus = Gpus(bytes=wanted.gpu_bytes(), shape=shape, context_length=context, trains=worker.trainer.enabled)
        planned, kept = plan_on_gpus(engine, profile=profile, gpus=gpus), ()
    kind = profile.accelerator.kind
    entries = _engine_dict(planned, kind) | ({"gib": gib_of(kept)} if kept else {})
    return entries, [*_kept_lines(kept), *_engine_lines(planned, kind)]


def _engine_dict(planned: EnginePlan, device: str) -> dict[str, Any]:
    entries = as_dict(planned.plan)
    for arm, entry in zip(planned.plan.arms, entries["arms"], strict=True):
        entry["fits_upto"] = planned.max_batch[arm]
    return {"device": device, **entries, "work_bytes": planned.memory.work, **memory_of(planned)}


def _kept_lines(kept: Sequence[Row]) -> list[str]:
    """Return the memory of an engine on a CPU as text."""
    rows = [f"{row.name.ljust(14)}  {row.bytes / GIB:7.2f} GiB" for row in kept]
    return [*rows, "plus, per rank, the process itself", ""] if rows else []


def _engine_lines(planned: EnginePlan, device: str) -> list[str]:
    entries = [*lines(planned.plan)] if device == "cuda" else ["no graphs on a CPU"]
    fits = ", ".join(f"{arm.name} {batch}" for arm, batch in planned.max_batch.items())
    divided = [*table_lines(planned.division.table), ""] if planned.division is not None else []
    told = [f"warning: {warning}" for warning in planned.warnings]
    return [
        *divided,
        *entries,
        f"largest batch that fits into {planned.memory.work / GIB:.2f} GiB of workspace: {fits}",
        *told,
    ]


def _write(entries: dict[str, Any], shown: list[str], json_to: str) -> None:
    if json_to and json_to != "-":
        try:
            Path(json_to).write_text(json.dumps(entries) + "\n")
        except OSError as error:
            raise ConfigError(f"--json: {json_to} cannot be written: {error}", field="json") from error
        return
    sys.stdout.write((json.dumps(entries) if json_to else "\n".join(shown)) + "\n")
