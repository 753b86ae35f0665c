"""Replaces the drafter's weights in SGLang."""

from typing import Any

from torch import Tensor


async def replace_drafter(manager: Any, tensors: list[tuple[str, Tensor]], *, ranks: int) -> str:
    """
    Load tensors into the drafter of a paused engine on all `ranks`. Return why that failed, or an empty string.

    `manager` is SGLang's tokenizer manager.
    """
    from sglang.srt.managers.io_struct import (
        BeginWeightUpdateReqInput,
        EndWeightUpdateReqInput,
        UpdateWeightsFromTensorReqInput,
    )
    from sglang.srt.utils import MultiprocessingSerializer

    # No weight_version: it would overwrite the policy's.
    request = UpdateWeightsFromTensorReqInput(
        # One copy per rank, which loads its shard of it.
        serialized_named_tensors=[MultiprocessingSerializer.serialize(tensors) for _ in range(ranks)],
        flush_cache=False,
        selector="draft",
    )
    done, message = await manager.begin_weight_update(BeginWeightUpdateReqInput(selector="draft"))
    if not done:
        return str(message or "no reason given")
    done, message = await manager.update_weights_from_tensor(request)
    is_ended, why = await manager.end_weight_update(EndWeightUpdateReqInput())
    if done and is_ended:
        return ""
    return str((why if done else message) or "no reason given")
