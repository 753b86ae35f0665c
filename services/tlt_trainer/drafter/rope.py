"""
Rotary position embedding, computed like transformers and SGLang (rotation of halves).

Shapes: B windows, N heads, T positions, D head size.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from tlt_common.drafter.rope import DEFAULT_THETA
from tlt_common.errors import ConfigError

ROPE_TYPES = ("default", "linear", "llama3")
"""Supported types, computed like SGLang computes them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rope:
    """Parameters of the embedding. The last four are used only by the types that need them."""

    theta: float = DEFAULT_THETA
    type: str = "default"
    factor: float = 1.0
    low_freq_factor: float = 1.0
    high_freq_factor: float = 4.0
    original_positions: int = 8192


def rope_of(parameters: Mapping[str, Any]) -> Rope:
    """
    Read the `rope` of a drafter's format.

    Raises:
        ConfigError: Its type is not supported, or a parameter is not a number.
    """
    kind = str(parameters["rope_type"])
    if kind not in ROPE_TYPES:
        raise ConfigError(
            f"model: the rope type in config.json is {kind!r}; accepted: {', '.join(ROPE_TYPES)}", field="model"
        )
    try:
        return Rope(
            theta=float(parameters["rope_theta"]),
            type=kind,
            factor=float(parameters.get("factor", 1.0)),
            low_freq_factor=float(parameters.get("low_freq_factor", 1.0)),
            high_freq_factor=float(parameters.get("high_freq_factor", 4.0)),
            original_positions=int(parameters.get("original_max_position_embeddings", 8192)),
        )
    except (OverflowError, TypeError, ValueError) as error:
        raise ConfigError(
            f"model: the rope in config.json has a value that is no number: {error}", field="model"
        ) from error


def frequencies(rope: Rope, head_dim: int) -> Tensor:
    """Return the D/2 angular frequencies, in radians per position."""
    steps = torch.arange(0, head_dim, 2, dtype=torch.float32)
    inverse = 1.0 / rope.theta ** (steps / head_dim)
    if rope.type == "linear":
        return inverse / rope.factor
    if rope.type == "llama3":
        return _stretched(inverse, rope)
    return inverse


def _stretched(inverse: Tensor, rope: Rope) -> Tensor:
    """Llama 3.1: scale long wavelengths by `factor`, keep short ones, interpolate in between."""
    waves = 2 * math.pi / inverse
    share = (rope.original_positions / waves - rope.low_freq_factor) / (rope.high_freq_factor - rope.low_freq_factor)
    share = share.clamp(0.0, 1.0)
    return inverse * (share + (1 - share) / rope.factor)


def angles(frequencies_D2: Tensor, positions_P: Tensor) -> tuple[Tensor, Tensor]:
    """Return cosines and sines of shape (P, D), in float32: bfloat16 cannot distinguish late positions."""
    phase_PD2 = positions_P.to(frequencies_D2.dtype)[:, None] * frequencies_D2
    phase_PD = torch.cat((phase_PD2, phase_PD2), dim=-1)
    return phase_PD.cos(), phase_PD.sin()


def rotate(x_NPD: Tensor, cos_PD: Tensor, sin_PD: Tensor) -> Tensor:
    """Rotate queries or keys by their positions; keeps the dtype."""
    wide = x_NPD.to(cos_PD.dtype)
    low, high = wide.chunk(2, dim=-1)
    turned = torch.cat((-high, low), dim=-1)
    return (wide * cos_PD + turned * sin_PD).to(x_NPD.dtype)
