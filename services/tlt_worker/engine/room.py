"""Whether a model fits onto the GPUs of a worker, before minutes are spent on loading it. Pure."""

from collections.abc import Sequence

from tlt_common.errors import ConfigError

GIB = 2**30
LEAST_CACHE = 0.1
"""Share of the engine's memory that must be left for the KV cache; with less, hardly a request runs."""


def require_room(model_bytes: int, *, gpu_bytes: Sequence[int], tensor_parallel: int, gpu_memory: float) -> None:
    """
    Check GPUs against a model.

    Args:
        model_bytes: Size of the weights as they are loaded.
        gpu_bytes: Memory of each GPU this process sees.
        tensor_parallel: GPUs the model is spread over.
        gpu_memory: Share of each GPU for weights and KV cache.

    Raises:
        ConfigError: There are fewer GPUs, or the model does not fit; says how many would do.
    """
    if len(gpu_bytes) < tensor_parallel:
        raise ConfigError(
            f"tensor_parallel is {tensor_parallel}, and this worker sees {len(gpu_bytes)} GPUs; accepted: at most as "
            "many (in the chart worker.gpus sets both)",
            field="tensor_parallel",
        )
    usable = min(gpu_bytes) * gpu_memory * (1 - LEAST_CACHE)
    if model_bytes <= usable * tensor_parallel:
        return
    needed = 1
    while usable * needed < model_bytes:
        needed *= 2
    raise ConfigError(
        f"the model's weights take {model_bytes / GIB:.1f} GiB, and {tensor_parallel} GPUs of "
        f"{min(gpu_bytes) / GIB:.0f} GiB hold {usable * tensor_parallel / GIB:.1f} with gpu_memory {gpu_memory:g}; "
        f"set tensor_parallel to {needed} (in the chart worker.gpus: {needed})",
        field="tensor_parallel",
    )
