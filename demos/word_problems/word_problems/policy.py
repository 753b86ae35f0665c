"""What of the policy is trained, and what is published of it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from transformers import LlamaForCausalLM

HEAD = "lm_head.weight"


def trainable(checkpoint: Path, *, layers: int) -> LlamaForCausalLM:
    """Return the policy in float32, of which the upper `layers` layers require gradients and nothing else does."""
    policy = LlamaForCausalLM.from_pretrained(checkpoint, dtype=torch.float32)
    policy.requires_grad_(requires_grad=False)
    for layer in policy.model.layers[-layers:]:
        layer.requires_grad_(requires_grad=True)
    return policy


def served_state(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return the whole checkpoint, as engines serve it, without the head: that is the embedding."""
    return {name: tensor for name, tensor in state.items() if name != HEAD}
