"""The plan of graphs and arms for an engine's options on its device."""

from collections.abc import Mapping
from typing import Any

from tlt_common.bandit import BanditConfig
from tlt_worker.engine.device import Device, gpu_generations, gpu_memory
from tlt_worker.engine.launch import EngineOptions
from tlt_worker.graphs.engine_plan import EnginePlan, plan_engine
from tlt_worker.graphs.memory import cpu_memory_of, gpu_memory_of, machine_memory
from tlt_worker.graphs.shape import ModelShape

FLASHINFER_BYTES = 512 * 2**20
"""Work space of one FlashInfer backend for Qwen models in SGLang 0.5.23; others take 384 MiB."""
HOPPER = 9
"""Generation on which SGLang takes FlashAttention 3, whose backends have no work space of their own."""


def context_length_of(options: EngineOptions, config: Mapping[str, Any]) -> int:
    """Tokens of prompt and response."""
    return options.context_length or int(config["max_position_embeddings"])


def plan_of(options: EngineOptions, device: Device, config: Mapping[str, Any], *, states: int = 1) -> EnginePlan:
    """
    Plan an engine for the memory there is, before minutes are spent on loading its model.

    Args:
        options: What the engine is told.
        device: Where it runs.
        config: The model's `config.json`.
        states: Hidden states of the target the drafter reads per token.

    Raises:
        ConfigError: An arm cannot run; field `arms`.
    """
    thresholds = BanditConfig(
        speculate_below_requests=options.speculate_below_requests, group_below_requests=options.group_below_requests
    )
    attention = 0
    if device.kind == "cuda":
        memory = gpu_memory_of(gpu_memory(), share=options.gpu_memory, graphs=options.graph_bytes)
        attention = FLASHINFER_BYTES if set(gpu_generations()) - {HOPPER} else 0
    else:
        memory = cpu_memory_of(machine_memory(), ranks=options.tensor_parallel)
    return plan_engine(
        shape=ModelShape.from_config(config, dtype=options.dtype, states=states),
        arms=options.arms,
        memory=memory,
        context_length=context_length_of(options, config),
        max_running=options.max_running,
        max_total_tokens=options.max_total_tokens,
        tensor_parallel=options.tensor_parallel,
        thresholds=thresholds,
        attention_workspace=attention,
    )
