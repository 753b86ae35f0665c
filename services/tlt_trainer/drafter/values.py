"""Tensors of a drafter: copying, replacing and moving them."""

from collections.abc import Mapping
from typing import cast

import torch
from torch import Tensor

from tlt_common.drafter.tensors import MAP
from tlt_trainer.drafter.kinds.draft_model import AnyDrafter


def copied(tensor: Tensor) -> Tensor:
    """
    Return a copy on the CPU.

    From a GPU it uses pinned memory, which torch reuses and which is several times as fast.
    """
    return torch.empty_like(tensor, device="cpu", pin_memory=tensor.is_cuda).copy_(tensor.detach())


def copies(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return copies on the CPU."""
    return {name: copied(tensor) for name, tensor in tensors.items()}


def tensors_of(drafter: AnyDrafter) -> dict[str, Tensor]:
    """Return the tensors without copying them."""
    return {name: tensor.detach() for name, tensor in drafter.state_dict().items()}


def load(drafter: AnyDrafter, weights: Mapping[str, Tensor]) -> None:
    """Replace the weights."""
    drafter.load_state_dict(cast("dict[str, Tensor]", weights))


def move(drafter: AnyDrafter, before: Mapping[str, Tensor], after: Mapping[str, Tensor]) -> None:
    """Add the difference of two drafters to the weights. With other draft tokens, replace the weights."""
    if MAP in after and not torch.equal(before[MAP], after[MAP].to(before[MAP].device)):
        load(drafter, after)
        return
    for name, tensor in tensors_of(drafter).items():
        if tensor.is_floating_point():
            tensor.add_(after[name].to(tensor.device) - before[name])
