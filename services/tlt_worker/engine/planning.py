"""Plans the CUDA graphs and arms of an engine on this machine."""

from collections.abc import Mapping
from typing import Any

from tlt_worker.capacity.engine_plan import EnginePlan, plan_engine
from tlt_worker.capacity.memory import cpu_memory_of, gpu_memory_of, machine_memory
from tlt_worker.capacity.shape import ModelShape
from tlt_worker.engine.device import Device, gpu_generations, gpu_memory
from tlt_worker.engine_config import EngineConfig

FLASHINFER_BYTES = 512 * 2**20
"""Workspace of one FlashInfer backend for Qwen models in SGLang 0.5.23; for other models it is 384 MiB."""
HOPPER = 9
"""Major compute capability at which SGLang uses FlashAttention 3, whose backends have no workspace of their own."""


def plan_of(engine: EngineConfig, device: Device, model: Mapping[str, Any], *, states: int = 1) -> EnginePlan:
    """
    Plan an engine for the available memory, before minutes are spent on loading its model.

    Args:
        engine: The engine's configuration.
        device: The device it runs on.
        model: The model's `config.json`.
        states: Hidden states of the target that the drafter reads per token.

    Raises:
        ConfigError: An arm cannot run; field `engine.arms`.
    """
    attention = 0
    if device.kind == "cuda":
        memory = gpu_memory_of(gpu_memory(), share=engine.gpu_memory, graphs=engine.graph_bytes)
        attention = FLASHINFER_BYTES if set(gpu_generations()) - {HOPPER} else 0
    else:
        memory = cpu_memory_of(machine_memory(), ranks=engine.tensor_parallel)
    return plan_engine(
        engine,
        device=device.kind,
        shape=ModelShape.from_config(model, dtype=engine.dtype, states=states),
        memory=memory,
        context_length=engine.context_for(model),
        attention_workspace=attention,
    )
