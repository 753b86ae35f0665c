"""
Where a token is drawn: by a coin, or, in seeded requests, by noise that depends on seed, position and token only.

SGLang's plain sampler adds Gumbel noise hashed from these three to the log-probabilities and takes the largest
(`layers/sampler.multinomial_with_seed`). Sampling with the same noise gives the same token, however requests are
drafted, switched or batched; and a drafter that samples with it proposes the target's token wherever the two mostly
agree (Daliri et al. 2024, "Coupling without communication and drafter-invariant speculative decoding").

Shapes: R rows to draw, V vocabulary.
"""

import torch
from torch import Tensor

UNSEEDED = -1
"""Marks a request without a seed in a batch where others have one."""

_MAX_HASH = 2**32 - 1


def draw(weights_RV: Tensor, coins_R: Tensor) -> Tensor:
    """Draw one token per row by inverting the cumulative weights at `coins_R`; weights need not be normalised."""
    cumulative_RV = weights_RV.double().cumsum(-1)
    total_R1 = cumulative_RV[:, -1:]
    # Strictly below the total, so that rounding never selects a token without weight.
    point_R1 = torch.minimum(coins_R.double().view(-1, 1) * total_R1, total_R1.nextafter(torch.zeros_like(total_R1)))
    found_R = torch.searchsorted(cumulative_RV, point_R1, right=True).view(-1)
    return found_R.clamp_(max=weights_RV.shape[-1] - 1)  # NaN weights match no token; its id would crash the engine


def race(weights_RV: Tensor) -> Tensor:
    """
    Draw one token per row: that of the largest weight divided by an exponential variable.

    The Gumbel trick, as in torch.multinomial, which also checks the weights, and on a GPU ends the process where they
    are not numbers. A scan would need several times the kernels.
    """
    noise_RV = torch.empty_like(weights_RV).exponential_().clamp_min_(torch.finfo(weights_RV.dtype).tiny)
    return torch.div(weights_RV, noise_RV, out=noise_RV).argmax(-1)


def gumbel(seeds_R: Tensor, positions_R: Tensor, size: int) -> Tensor:
    """
    Return Gumbel noise [R, size] in float64, identical to that of `multinomial_with_seed`.

    `positions_R` are those of the last input tokens: the noise at position t is for the token at t + 1.
    """
    # Imported here: SGLang's kernels exist in its processes only, and tests of the walk do not need them.
    from sglang.kernels.ops.sampling.murmur_hash import murmur_hash32

    columns_V = torch.arange(size, device=seeds_R.device)
    hashed_RV: Tensor = murmur_hash32(seeds_R.to(torch.uint64), positions_R.to(torch.int64), columns_V)
    noise_RV = hashed_RV.to(torch.float64) / _MAX_HASH
    # SGLang's bounds: neither end of the hash may give an infinite score.
    noise_RV.log_().clamp_(min=torch.finfo(torch.float64).min, max=-(2.0**-32)).neg_()
    return noise_RV.log_().neg_()


def draw_seeded(probs_RV: Tensor, seeds_R: Tensor, positions_R: Tensor) -> Tensor:
    """Draw one token per row [R] with its seed's noise; tokens of probability 0 are never drawn."""
    scores_RV = gumbel(seeds_R, positions_R, probs_RV.shape[-1]).add_(probs_RV.double().log())
    return scores_RV.argmax(-1)


def reseed(tokens_R: Tensor, probs_RV: Tensor, seeds_R: Tensor | None, positions_R: Tensor) -> Tensor:
    """Replace the tokens of rows that have a seed by those drawn from `probs_RV` with its noise."""
    if seeds_R is None:
        return tokens_R
    return torch.where(seeds_R == UNSEEDED, tokens_R, draw_seeded(probs_RV, seeds_R, positions_R))
