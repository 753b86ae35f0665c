"""
Rotary position embedding, computed like transformers and SGLang (rotation of halves).

Shapes: B windows, N heads, T positions, D head size.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from tlt_common.drafter.format import DrafterFormat
from tlt_common.drafter.rope import rope_refusal
from tlt_common.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class Rotation:
    """Parameters of the rotation of queries and keys."""

    frequencies: Tensor
    """(D/2,), radians per position, in float32."""
    scale: float = 1.0
    """Factor of cosines and sines. Differs from 1 for yarn, which sharpens attention with it."""


def require_rope(form: DrafterFormat) -> None:
    """
    Check that drafters of this format can be trained.

    Raises:
        ConfigError: Their rope is not supported, or one of its parameters is not a number.
    """
    if reason := rope_refusal(form.rope):
        raise ConfigError(f"model: {reason}", field="model")


def rotation_of(form: DrafterFormat) -> Rotation:
    """
    Return the rotation of a drafter.

    Raises:
        ConfigError: Its rope is not supported, or one of its parameters is not a number.
    """
    require_rope(form)
    kind = form.rope["rope_type"]
    if kind == "default":
        steps_D2 = torch.arange(0, form.turned_size, 2, dtype=torch.float32) / form.turned_size
        return Rotation(frequencies=1.0 / form.rope["rope_theta"] ** steps_D2)
    from transformers import LlamaConfig  # seconds, which most policies need not wait for
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    sizes: dict[str, Any] = {
        "hidden_size": form.hidden_size,
        "num_attention_heads": form.heads,
        "head_dim": form.turned_size,
        "max_position_embeddings": form.max_positions,
        "rope_parameters": {
            key: float(value) if isinstance(value, int) and not isinstance(value, bool) else value
            for key, value in form.rope.items()
        },
    }
    frequencies, scale = ROPE_INIT_FUNCTIONS[kind](LlamaConfig(**sizes))
    return Rotation(frequencies=frequencies, scale=scale)


def angles(rotation: Rotation, positions_P: Tensor) -> tuple[Tensor, Tensor]:
    """Return cosines and sines of shape (P, D), in float32: bfloat16 cannot distinguish late positions."""
    frequencies_D2 = rotation.frequencies
    phase_PD2 = positions_P.to(frequencies_D2.dtype)[:, None] * frequencies_D2
    phase_PD = torch.cat((phase_PD2, phase_PD2), dim=-1)
    return phase_PD.cos() * rotation.scale, phase_PD.sin() * rotation.scale


def rotate(x_NPD: Tensor, cos_PD: Tensor, sin_PD: Tensor) -> Tensor:
    """Rotate queries or keys, or the first part of each head, by position. Keeps the dtype."""
    size = cos_PD.shape[-1]
    wide = x_NPD[..., :size].to(cos_PD.dtype)
    low, high = wide.chunk(2, dim=-1)
    turned = (wide * cos_PD + torch.cat((-high, low), dim=-1) * sin_PD).to(x_NPD.dtype)
    return turned if size == x_NPD.shape[-1] else torch.cat((turned, x_NPD[..., size:]), dim=-1)
