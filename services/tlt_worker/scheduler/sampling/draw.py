"""
Draws tokens: with a coin or, in seeded requests, with noise that depends on seed, position and token only.

SGLang's plain sampler adds Gumbel noise hashed from these three to the log-probabilities and takes the largest.
Sampling with the same noise gives the same token, however requests are drafted, moved or batched, and a drafter that
samples with it proposes the target's token wherever the two distributions mostly agree (Daliri et al. 2024, "Coupling
without communication and drafter-invariant speculative decoding").

On a CUDA device each is one kernel that draws the same tokens (`kernels`).

Shapes: R rows to draw, S of them with a seed, V vocabulary.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from tlt_worker.scheduler.sampling.fixed_point import point, scaled
from tlt_worker.scheduler.sampling.forms import Form, form_of
from tlt_worker.scheduler.sampling.noise import KeptHashes, exponentials, hashes, winners

UNSEEDED = -1
"""Marks a request without a seed in a batch where others have one."""

_kept = KeptHashes()


def draw(weights_RV: Tensor, coins_R: Tensor) -> Tensor:
    """
    Draw one token per row by inverting the cumulative weights at `coins_R`; weights need not be normalized.

    Exact up to the bounds of `fixed_point`. A row with zero or NaN weights gives the last token, since an id beyond the
    vocabulary would crash the engine.
    """
    if weights_RV.is_cuda:
        from tlt_worker.scheduler.sampling import kernels  # Triton has no CPU

        return kernels.draw(weights_RV, coins_R)
    cumulative_RV = scaled(weights_RV).cumsum(-1)
    point_R1 = point(cumulative_RV[:, -1:], coins_R.view(-1, 1))
    found_R = torch.searchsorted(cumulative_RV, point_R1, right=True).view(-1)
    return found_R.clamp_(max=weights_RV.shape[-1] - 1)


def race(weights_RV: Tensor) -> Tensor:
    """
    Draw one token per row: the one with the largest weight divided by an exponential variable.

    This is the Gumbel trick, as in torch.multinomial, which also checks the weights and on a GPU ends the process on
    NaN. A scan would need several times as many kernels.
    """
    noise_RV = torch.empty_like(weights_RV).exponential_().clamp_min_(torch.finfo(weights_RV.dtype).tiny)
    return torch.div(weights_RV, noise_RV, out=noise_RV).argmax(-1)


def draw_seeded(probs_RV: Tensor, seeds_R: Tensor, positions_R: Tensor) -> Tensor:
    """Draw one token per row [R] with its seed's noise. Tokens of probability 0 are never drawn."""
    size = probs_RV.shape[-1]
    if form_of(probs_RV) is Form.FEW:
        return winners(probs_RV, _kept.of(seeds_R.tolist(), positions_R.tolist(), size))
    return (probs_RV / exponentials(hashes(seeds_R, positions_R, size))).argmax(-1)


def drawn(probs_RV: Tensor, seeds_R: Tensor | None, positions_R: Tensor, otherwise: Callable[[], Tensor]) -> Tensor:
    """
    Draw one token per row [R]: from `probs_RV` with its seed's noise, or as `otherwise` does for rows without a seed.

    `otherwise` returns a token for every row; on a CPU it is not called if all rows have a seed.
    """
    if seeds_R is None:
        return otherwise()
    if form_of(probs_RV) is Form.FEW:
        is_mine_R = seeds_R != UNSEEDED
        if is_mine_R.all():
            return draw_seeded(probs_RV, seeds_R, positions_R)
        mine_S = is_mine_R.nonzero().view(-1)
        seeded_S = draw_seeded(probs_RV[mine_S], seeds_R[mine_S], positions_R[mine_S])
        return otherwise().to(torch.int64).index_copy(0, mine_S, seeded_S)
    if probs_RV.is_cuda:
        from tlt_worker.scheduler.sampling import kernels

        return kernels.reseed(otherwise(), probs_RV, seeds_R, positions_R)
    return torch.where(seeds_R == UNSEEDED, otherwise(), draw_seeded(probs_RV, seeds_R, positions_R))
