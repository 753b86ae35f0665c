"""
Filters with fixed shapes: the smallest probability a row keeps is found by bisection, without sorting.

Top-k, top-p and min-p on the same probabilities keep the tokens above a threshold, and of those equal to it the first
ones. Non-negative floats are ordered as their bits are, so 31 comparisons of a row find its threshold exactly. A GPU
reads a row of 152,000 tokens in well below a microsecond; sorting it takes hundreds.

Shapes: M rows, V vocabulary.
"""

import torch
from torch import Tensor

from tlt_worker.scheduler.sampling.cuts import Cuts

_BITS = 31
"""Bits of a float32 without its sign."""


def truncate(probs_MV: Tensor, cuts: Cuts) -> Tensor:
    """
    Filter every row of float32 `probs_MV` and normalise it; rows without filters are unchanged.

    On a GPU it launches 36 kernels.
    """
    size = probs_MV.shape[-1]
    most_M1 = cuts.top_ks.view(-1, 1)
    # A sum of probabilities may exceed 1 by rounding, and a top-p of 1 keeps everything.
    mass_M1 = torch.where(cuts.top_ps < 1.0, cuts.top_ps.double(), torch.inf).view(-1, 1)
    threshold_M1 = _threshold(probs_MV, most_M1, mass_M1)
    is_above_MV, is_equal_MV = probs_MV > threshold_M1, probs_MV == threshold_M1
    left_M1 = most_M1 - is_above_MV.sum(-1, keepdim=True)
    room_M1 = mass_M1 - _mass(probs_MV, is_above_MV)
    rank_MV = is_equal_MV.cumsum(-1) - 1  # ties are ordered by token id
    is_first_MV = is_equal_MV & (rank_MV < left_M1) & (rank_MV * threshold_M1.double() <= room_M1)
    is_likely_MV = probs_MV >= probs_MV.amax(-1, keepdim=True) * cuts.min_ps.view(-1, 1)
    cut_MV = torch.where((is_above_MV | is_first_MV) & is_likely_MV, probs_MV, 0.0)
    cut_MV = cut_MV / cut_MV.sum(-1, keepdim=True)
    return torch.where(cuts.filter(size).view(-1, 1), cut_MV, probs_MV)


def _threshold(probs_MV: Tensor, most_M1: Tensor, mass_M1: Tensor) -> Tensor:
    """
    Return the smallest value [M, 1] of which a token would be kept.

    It is kept if fewer than `most_M1` tokens are above it, and their mass is at most `mass_M1`.
    """
    if probs_MV.is_cuda:
        from tlt_worker.scheduler.sampling.threshold_kernel import threshold  # Triton has no CPU

        return threshold(probs_MV, most_M1, mass_M1)
    low_M1 = torch.zeros(len(probs_MV), 1, dtype=torch.int32, device=probs_MV.device)
    for bit in reversed(range(_BITS)):
        # The largest value that is not kept, bit by bit; nothing is above the ones that are not numbers.
        tried_M1 = low_M1 | (1 << bit)
        above_MV = probs_MV > tried_M1.view(torch.float32)
        is_kept_M1 = (above_MV.sum(-1, keepdim=True) < most_M1) & (_mass(probs_MV, above_MV) <= mass_M1)
        low_M1 = torch.where(is_kept_M1, low_M1, tried_M1)
    return (low_M1 + 1).view(torch.float32)


def _mass(probs_MV: Tensor, is_counted_MV: Tensor) -> Tensor:
    return torch.where(is_counted_MV, probs_MV, 0.0).sum(-1, keepdim=True, dtype=torch.float64)
