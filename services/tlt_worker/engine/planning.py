"""Plans the CUDA graphs and arms of an engine on this machine."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tlt_common.drafter.format import DrafterFormat
from tlt_common.errors import ConfigError
from tlt_common.telemetry.log import get_logger
from tlt_worker.capacity.attention import Heads
from tlt_worker.capacity.engine_plan import EnginePlan, plan_engine, plan_on_gpus
from tlt_worker.capacity.memory.gpu_plan import Gpus
from tlt_worker.capacity.memory.memory import GIB, cpu_memory_of, machine_memory
from tlt_worker.capacity.profile import profile_of
from tlt_worker.capacity.shape import ModelShape
from tlt_worker.checkpoints.drafter_format import drafter_format
from tlt_worker.engine.device import Device, gpu_memory
from tlt_worker.engine_config import EngineConfig
from tlt_worker.model.families import listed

log = get_logger(__name__)


def log_plan(plan: EnginePlan) -> None:
    """Log a plan's warnings for the user."""
    if plan.division is not None:
        rows = {row.name: round(row.bytes / GIB, 2) for row in plan.division.table.rows}
        log.info("memory_planned", attention=plan.profile.attention, gpu_memory=plan.division.gpu_memory, gib=rows)
    for warning in plan.warnings:
        log.warning("engine_plan", message=warning)


def log_held(plan: EnginePlan, held: Mapping[str, float]) -> dict[str, float]:
    """Log the GPU memory that an engine holds against its plan; return held ÷ planned by row."""
    if plan.division is None or not held:
        return {}
    table = plan.division.table
    ratios = {name: round(gib * GIB / table.of(name), 3) for name, gib in held.items() if table.of(name)}
    log.info("memory_held", gib={name: round(gib, 2) for name, gib in held.items()}, over_plan=ratios)
    return ratios


def plan_of(
    engine: EngineConfig,
    device: Device,
    model: Mapping[str, Any],
    *,
    drafter: DrafterFormat | None = None,
    trains: bool = False,
) -> EnginePlan:
    """
    Plan an engine for the available memory, before loading the model takes minutes.

    Args:
        engine: The engine's configuration.
        device: The device it runs on.
        model: The model's `config.json`.
        drafter: Format of drafters. None stands for EAGLE drafters with the sizes of the model's layers.
        trains: Whether a spot trainer shares the device.

    Raises:
        ConfigError: An arm cannot run; field `engine.arms`.
    """
    family, context = listed(model), engine.context_for(model)
    profile = profile_of(engine, device.accelerator, family=family, heads=Heads.from_config(model), drafter=drafter)
    if family is None and engine.allow_unlisted:
        profile = replace(profile, warnings=(*profile.warnings, _unlisted(engine, device, model)))
    shape = ModelShape.from_config(model, dtype=profile.dtype, drafter=drafter)
    if device.kind == "cuda":
        gpus = Gpus(bytes=min(gpu_memory()), shape=shape, context_length=context, trains=trains)
        return plan_on_gpus(engine, profile=profile, gpus=gpus)
    memory = cpu_memory_of(machine_memory(), ranks=engine.tensor_parallel)
    return plan_engine(engine, profile=profile, shape=shape, memory=memory, context_length=context)


def _unlisted(engine: EngineConfig, device: Device, model: Mapping[str, Any]) -> str:
    """
    Return a warning about a model that is not in the table of families.

    Raises:
        ConfigError: Its memory on a GPU cannot be planned.
    """
    if device.kind == "cuda" and engine.gpu_memory is None:
        raise ConfigError(
            "engine.gpu_memory is null, but the memory of a model that is not in the table of families is not planned; "
            "accepted: a fraction of the GPU for weights and KV cache",
            field="engine.gpu_memory",
        )
    return (
        f"engine.allow_unlisted serves {model.get('architectures')}: its tensors are not checked, its memory is "
        "planned like a dense model's; captured states, weight updates and the distribution of responses are untested"
    )


def trainer_share(engine: EngineConfig, device: Device, model: Mapping[str, Any]) -> float | None:
    """
    Return the fraction of the first GPU's memory that a spot trainer may allocate, or None on a CPU.

    Raises:
        ConfigError: An arm cannot run; field `engine.arms`. Or the drafter does not fit the model.
    """
    division = plan_of(engine, device, model, drafter=drafter_format(engine, model), trains=True).division
    if division is None or division.trainer is None:
        return None
    return min(1.0, division.trainer.limit / division.table.total)
