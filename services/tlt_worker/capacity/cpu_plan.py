"""Memory that an engine on a CPU allocates. Pure."""

from tlt_worker.capacity.engine_plan import EnginePlan
from tlt_worker.capacity.graphs.cost import Costs
from tlt_worker.capacity.memory.memory import Workspace
from tlt_worker.capacity.memory.table import Row
from tlt_worker.capacity.shape import ModelShape
from tlt_worker.engine_config import EngineConfig


def cpu_slots(engine: EngineConfig, *, context_length: int, width: int) -> int:
    """
    Return the KV cache size of an engine on a CPU, in tokens.

    Args:
        engine: The engine's configuration.
        context_length: Maximum length of prompt and response, in tokens.
        width: Tokens verified by the widest arm. Slots of two rounds are reserved per request: the running one and the
            one being prepared.
    """
    return engine.max_total_tokens or engine.max_running * (context_length + 2 * width)


def cpu_rows(engine: EngineConfig, shape: ModelShape, plan: EnginePlan, *, context_length: int) -> tuple[Row, ...]:
    """
    Return the bytes of weights, drafter, KV cache and the largest round, per rank, without the process itself.

    Matrices take their memory twice, since a packed copy is kept (`tlt_worker.scheduler.models.packed_weights`).
    """
    slots, ranks = cpu_slots(engine, context_length=context_length, width=plan.profile.width), engine.tensor_parallel
    costs = Costs(model=shape, tensor_parallel=ranks, context_length=context_length)
    workspace = Workspace(costs=costs, kv_tokens=slots, free=plan.memory.work)
    rounds = (workspace.round(arm, batch, lambda *_: False) for arm, batch in plan.max_batch.items() if batch)
    return (
        Row(name="weights", bytes=shape.weight_bytes(ranks)),
        Row(name="packed weights", bytes=shape.packed_bytes(ranks)),
        Row(name="drafter", bytes=shape.drafter_bytes(ranks)),
        Row(name="KV cache", bytes=slots * shape.kv_bytes(ranks)),
        Row(name="rounds", bytes=max(rounds, default=0)),
    )
