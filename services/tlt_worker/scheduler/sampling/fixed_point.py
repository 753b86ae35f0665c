"""
Sums probabilities as integers, which are equal in any order.

A sum of floats depends on how it is divided among threads, so that two devices, batch sizes or kernels could disagree
about where a token's share begins. Here every weight is first cut to a multiple of 2**-44: of 1 for the filters, of a
power of two not above the row's largest weight for a draw. That is exact for float32 weights from 2**-20 of that unit
up, and takes less than 2**-44 from any other. The chance of a token changes by less than V * 2**-44 in total, 2**-26
for a vocabulary of 262,144 tokens, which is less than the rounding of float32 probabilities; one below 2**-44 of the
largest is never drawn.

Shapes: R rows, V vocabulary.
"""

import torch
from torch import Tensor

BITS = 44
"""Bits after the point. With 18 bits for a vocabulary, a sum of weights up to 2 has one bit left of 64."""
COIN_BITS = 24
"""Bits of a coin: `torch.rand` draws float32 multiples of 2**-24."""

_EXPONENT_AT = 23
_LEAST_EXPONENT, _SCALE_EXPONENT = 43, 2 * 127 + BITS - 1
"""Of a row's largest weight, as float32 stores it, and what it and the exponent of the scale sum to: the largest weight
becomes a number of 44 bits."""


def whole(weights: Tensor) -> Tensor:
    """Return weights up to 1 as multiples of 2**-44 (int64). Values that are not positive numbers become 0."""
    return torch.where(weights > 0, weights, 0.0).mul(2.0**BITS).to(torch.int64)


def scaled(weights_RV: Tensor) -> Tensor:
    """Return float32 weights [R, V] of any sum as multiples (int64) of 2**-44 of each row's largest power of two."""
    weights_RV = torch.where((weights_RV > 0) & (weights_RV < torch.inf), weights_RV, 0.0)
    exponent_R1 = weights_RV.amax(-1, keepdim=True).view(torch.int32) >> _EXPONENT_AT
    scale_R1 = (_SCALE_EXPONENT - exponent_R1.clamp(min=_LEAST_EXPONENT)) << _EXPONENT_AT
    return (weights_RV * scale_R1.view(torch.float32)).to(torch.int64)


def point(totals_R1: Tensor, coins_R1: Tensor) -> Tensor:
    """Multiply coins in [0, 1) by integer totals, rounded down: always below the total, so that a weight is found."""
    coins_R1 = (coins_R1 * 2.0**COIN_BITS).to(torch.int64).clamp(max=2**COIN_BITS - 1)
    high_R1, low_R1 = totals_R1 >> COIN_BITS, totals_R1 & (2**COIN_BITS - 1)
    point_R1: Tensor = coins_R1 * high_R1 + ((coins_R1 * low_R1) >> COIN_BITS)  # the product has up to 87 bits
    return point_R1
