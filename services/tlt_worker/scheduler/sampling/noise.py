"""
Noise of seeded requests: exponential variables that depend on seed, position and token only.

The token with the largest probability / noise is one drawn by the probabilities, and the one with the largest
log-probability plus Gumbel noise, -log of the same variable: what SGLang's plain sampler does in float64 from the same
hash (`layers/sampler.multinomial_with_seed`). In float32, the logarithm of a hash u in (0, 1] would lose what decides:
tokens win by noise near 0, where u is near 1. So it is computed from whichever of u and 1 - u is small, which the hash
has exactly, by additions, multiplications and divisions alone, each correctly rounded: every device computes the same
bits. Its relative error is below 2**-20; that of a token's probability by the 32 bits of the hash is 2**-32. Tokens
differ from those in float64 where two scores are that close.

Shapes: R rows, V vocabulary.
"""

import torch
from torch import Tensor

LN2 = 0.6931471805599453
ROOT2 = 1.4142135
MAX_HASH = 2**32 - 1
NEAR = 2**30
"""Hashes this close to the largest are a u above 3/4."""


def hashes(seeds_R: Tensor, positions_R: Tensor, size: int) -> Tensor:
    """
    Return SGLang's hash of seed, position and token, [R, size], int64 from 0 to `MAX_HASH`.

    `positions_R` are those of the last input tokens: the noise at position t is for the token at t + 1.
    """
    # Imported here: SGLang's kernels exist in its processes only, and tests of the walk do not need them.
    from sglang.kernels.ops.sampling.murmur_hash import murmur_hash32

    columns_V = torch.arange(size, device=seeds_R.device)
    hashed_RV: Tensor = murmur_hash32(seeds_R.to(torch.uint64), positions_R.to(torch.int64), columns_V)
    return hashed_RV.to(torch.int64)


def exponentials(hashed_RV: Tensor) -> Tensor:
    """Return -log(hash / `MAX_HASH`) in float32, at least 2**-32: neither end may give an infinite score."""
    above_RV = (MAX_HASH - hashed_RV).clamp_(min=1)
    is_near_RV = above_RV < NEAR
    rest_RV = above_RV.float() * 2.0**-32  # 1 - u, to 24 bits however small
    u_RV = hashed_RV.clamp(min=1).float()  # times 2**32
    exponent_RV = (u_RV.view(torch.int32) >> 23) - 127
    fraction_RV = ((u_RV.view(torch.int32) & 0x7FFFFF) | 0x3F800000).view(torch.float32)
    is_high_RV = fraction_RV > ROOT2
    fraction_RV = torch.where(is_high_RV, fraction_RV * 0.5, fraction_RV)
    halvings_RV = torch.where(is_near_RV, 0, 32 - exponent_RV - is_high_RV.to(torch.int32)).float()
    # log((1 + x) / (1 - x)) is 2 x (1 + x**2 / 3 + x**4 / 5 + ...), with x at most 0.172.
    over_RV = torch.where(is_near_RV, rest_RV, 1.0 - fraction_RV)
    x_RV = over_RV / torch.where(is_near_RV, 2.0 - rest_RV, 1.0 + fraction_RV)
    square_RV = x_RV * x_RV
    series_RV = ((square_RV * (1 / 9) + 1 / 7) * square_RV + 1 / 5) * square_RV + 1 / 3
    series_RV = (series_RV * square_RV + 1.0) * (x_RV + x_RV)
    return halvings_RV * LN2 + series_RV
