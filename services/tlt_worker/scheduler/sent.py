"""Values that go from the host to the device without the host waiting. Used inside SGLang's processes only."""

from collections.abc import Hashable, Sequence
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor


def sent(values: Sequence[Any], device: Any, dtype: torch.dtype | None = None) -> Tensor:
    """
    Return a tensor of host values on a device.

    `torch.tensor(values, device=...)` copies from pageable memory, which waits for all work queued on a GPU's stream.
    """
    made, target = torch.tensor(values, dtype=dtype), torch.device(device)
    return (made if target.type == "cpu" else made.pin_memory()).to(target, non_blocking=True)


@lru_cache(maxsize=64)
def sent_once(values: tuple[Hashable, ...], device: Any, dtype: torch.dtype) -> Tensor:
    """
    Return a tensor of host values on a device: the same one for the same values. It must not be modified.

    For what stays the same from round to round while the same requests run. The type is named, since (True,) and (1,)
    are the same values.
    """
    return sent(values, device, dtype)
