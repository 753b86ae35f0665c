"""What an engine on a CPU allocates for as long as it runs. Pure."""

from tlt_worker.capacity.memory.table import Row
from tlt_worker.capacity.shape import ModelShape
from tlt_worker.engine_config import EngineConfig


def cpu_slots(engine: EngineConfig, *, context_length: int, width: int) -> int:
    """
    Return the tokens that the KV cache of an engine on a CPU holds.

    Args:
        engine: The engine's configuration.
        context_length: Maximum length of prompt and response, in tokens.
        width: Tokens verified by the widest arm. Slots of two rounds are reserved per request: the running one and the
            one being prepared.
    """
    return engine.max_total_tokens or engine.max_running * (context_length + 2 * width)


def cpu_rows(engine: EngineConfig, shape: ModelShape, *, context_length: int, width: int) -> tuple[Row, ...]:
    """
    Return the bytes of weights, drafter and KV cache, per rank; the process itself and its rounds take more.

    Weights that products are made with are there a second time, packed (`tlt_worker.scheduler.models.packed_weights`).
    """
    slots, ranks = cpu_slots(engine, context_length=context_length, width=width), engine.tensor_parallel
    return (
        Row(name="weights", bytes=shape.weight_bytes(ranks)),
        Row(name="packed weights", bytes=shape.packed_bytes(ranks)),
        Row(name="drafter", bytes=shape.drafter_bytes(ranks)),
        Row(name="KV cache", bytes=slots * shape.kv_bytes(ranks)),
    )
