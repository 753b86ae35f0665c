"""
Filters with fixed shapes: finds each row's smallest kept probability by bisection, without sorting.

Top-k, top-p and min-p on the same probabilities keep the tokens above a threshold and the first of those equal to it.
Non-negative floats are ordered like their bits, so 31 comparisons of a row find its threshold exactly. Masses are
integers (`fixed_point`), so that every form and device keeps the same tokens.

Shapes: M rows, V vocabulary.
"""

import torch
from torch import Tensor

from tlt_worker.scheduler.sampling.cuts import Cuts
from tlt_worker.scheduler.sampling.fixed_point import BITS, whole

_BITS = 31
"""Bits of a float32 without its sign."""
_ALL = 1 << 62
"""A mass that no row reaches."""


def truncate(probs_MV: Tensor, cuts: Cuts) -> Tensor:
    """Filter and normalize every row of float32 `probs_MV`. Rows without filters are unchanged."""
    if probs_MV.is_cuda:
        from tlt_worker.scheduler.sampling import kernels  # Triton has no CPU

        return kernels.truncate(probs_MV, cuts)
    weights_MV = torch.where((probs_MV > 0) & (probs_MV < torch.inf), probs_MV, 0.0)
    whole_MV, most_M1, mass_M1 = whole(weights_MV), cuts.top_ks.view(-1, 1), masses(cuts).view(-1, 1)
    least_M1 = _threshold(weights_MV, whole_MV, most_M1, mass_M1)
    is_above_MV, is_equal_MV = weights_MV > least_M1, weights_MV == least_M1
    left_M1 = most_M1 - is_above_MV.sum(-1, keepdim=True)
    room_M1 = mass_M1 - _mass(whole_MV, is_above_MV)
    rank_MV = is_equal_MV.cumsum(-1) - 1  # ties are ordered by token id
    is_first_MV = is_equal_MV & (rank_MV < left_M1) & (rank_MV * whole(least_M1) <= room_M1)
    is_likely_MV = weights_MV >= weights_MV.amax(-1, keepdim=True) * cuts.min_ps.view(-1, 1)
    is_kept_MV = (is_above_MV | is_first_MV) & is_likely_MV
    cut_MV = normalized(torch.where(is_kept_MV, weights_MV, 0.0), _mass(whole_MV, is_kept_MV))
    return torch.where(cuts.filter(probs_MV.shape[-1]).view(-1, 1), cut_MV, probs_MV)


def masses(cuts: Cuts) -> Tensor:
    """Return top-p [M] as integers. Rounding may raise a sum of probabilities above 1; a top-p of 1 keeps all."""
    return torch.where(cuts.top_ps < 1.0, (cuts.top_ps.float() * 2.0**BITS).to(torch.int64), _ALL)


def normalized(weights_MV: Tensor, total_M1: Tensor) -> Tensor:
    """Divide rows by their integer totals [M, 1]."""
    return weights_MV / (total_M1.float() * 2.0**-BITS)


def _threshold(weights_MV: Tensor, whole_MV: Tensor, most_M1: Tensor, mass_M1: Tensor) -> Tensor:
    """
    Return the smallest value [M, 1] at which a token is kept.

    A token is kept if fewer than `most_M1` tokens are above it and their mass is at most `mass_M1`.
    """
    low_M1 = torch.zeros(len(weights_MV), 1, dtype=torch.int32, device=weights_MV.device)
    for bit in reversed(range(_BITS)):
        # The largest value that is not kept, bit by bit; nothing is above the ones that are not numbers.
        tried_M1 = low_M1 | (1 << bit)
        above_MV = weights_MV > tried_M1.view(torch.float32)
        is_kept_M1 = (above_MV.sum(-1, keepdim=True) < most_M1) & (_mass(whole_MV, above_MV) <= mass_M1)
        low_M1 = torch.where(is_kept_M1, low_M1, tried_M1)
    return (low_M1 + 1).view(torch.float32)


def _mass(whole_MV: Tensor, is_counted_MV: Tensor) -> Tensor:
    return torch.where(is_counted_MV, whole_MV, 0).sum(-1, keepdim=True)
