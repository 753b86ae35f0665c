"""Checks that a model fits onto a worker's GPUs, before minutes are spent on loading it. Pure."""

from collections.abc import Sequence

from tlt_common.errors import ConfigError

GIB = 2**30
MIN_CACHE = 0.1
"""Fraction of the engine's memory that must remain for the KV cache; with less, hardly any request could run."""


def require_room(model_bytes: int, *, gpu_bytes: Sequence[int], tensor_parallel: int, gpu_memory: float) -> None:
    """
    Check that a model fits onto GPUs.

    Args:
        model_bytes: Size of the weights once loaded.
        gpu_bytes: Memory of each GPU visible to this process.
        tensor_parallel: Number of GPUs the model is sharded over.
        gpu_memory: Fraction of each GPU's memory for weights and KV cache.

    Raises:
        ConfigError: There are too few GPUs, or the model does not fit; the message states how many would suffice.
    """
    if len(gpu_bytes) < tensor_parallel:
        raise ConfigError(
            f"engine.tensor_parallel is {tensor_parallel}, but this worker has {len(gpu_bytes)} GPUs; accepted: at "
            "most that many (in the chart, worker.gpus sets both)",
            field="engine.tensor_parallel",
        )
    usable = min(gpu_bytes) * gpu_memory * (1 - MIN_CACHE)
    if model_bytes <= usable * tensor_parallel:
        return
    needed = 1
    while usable * needed < model_bytes:
        needed *= 2
    raise ConfigError(
        f"the model's weights take {model_bytes / GIB:.1f} GiB, but {tensor_parallel} GPUs of "
        f"{min(gpu_bytes) / GIB:.0f} GiB hold {usable * tensor_parallel / GIB:.1f} with engine.gpu_memory "
        f"{gpu_memory:g}; set engine.tensor_parallel to {needed} (in the chart, worker.gpus)",
        field="engine.tensor_parallel",
    )
