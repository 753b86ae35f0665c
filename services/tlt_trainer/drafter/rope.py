"""
Rotary position embedding, as transformers and SGLang compute it (rotation of halves).

Shapes: B windows, N heads, T positions, D elements of a head.
"""

import math

import torch
from torch import Tensor

from tlt_trainer.drafter.shape import Rope


def frequencies(rope: Rope, head_dim: int) -> Tensor:
    """Return the D/2 angular frequencies, in radians per position."""
    steps = torch.arange(0, head_dim, 2, dtype=torch.float32)
    inverse = 1.0 / rope.theta ** (steps / head_dim)
    if rope.kind == "linear":
        return inverse / rope.factor
    if rope.kind == "llama3":
        return _stretched(inverse, rope)
    return inverse


def _stretched(inverse: Tensor, rope: Rope) -> Tensor:
    """Llama 3.1: long waves are stretched by `factor`, short ones kept, those between interpolated."""
    waves = 2 * math.pi / inverse
    share = (rope.original_positions / waves - rope.low_freq_factor) / (rope.high_freq_factor - rope.low_freq_factor)
    share = share.clamp(0.0, 1.0)
    return inverse * (share + (1 - share) / rope.factor)


def angles(frequencies_D2: Tensor, positions_BT: Tensor) -> tuple[Tensor, Tensor]:
    """Return cosines and sines of shape (B, 1, T, D), in float32: bfloat16 cannot tell late positions apart."""
    phase_BT = positions_BT.float()[..., None] * frequencies_D2
    phase_B1TD = torch.cat((phase_BT, phase_BT), dim=-1)[:, None]
    return phase_B1TD.cos(), phase_B1TD.sin()


def rotate(x_BNTD: Tensor, cos_B1TD: Tensor, sin_B1TD: Tensor) -> Tensor:
    """Turn queries or keys by their positions; keeps the element type."""
    low, high = x_BNTD.float().chunk(2, dim=-1)
    turned = torch.cat((-high, low), dim=-1)
    return (x_BNTD.float() * cos_B1TD + turned * sin_B1TD).to(x_BNTD.dtype)
