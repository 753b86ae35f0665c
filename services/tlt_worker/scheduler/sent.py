"""Copies values from host to device without making the host wait. Used inside SGLang's processes only."""

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
    Return a tensor of host values on a device. Equal values return the same tensor, which must not be modified.

    For values that stay the same from round to round while the same requests run. The type is part of the key, since
    (True,) equals (1,).
    """
    return sent(values, device, dtype)
