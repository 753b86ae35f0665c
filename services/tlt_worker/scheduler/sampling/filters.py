"""
Filters the distribution that a token is drawn from: temperature first, then top-k, top-p and min-p on the same
probabilities.

The same rule applies to the first token and to verification, on every device. SGLang 0.5.23 has three rules: its torch
sampler filters jointly, flashinfer and EAGLE's verification renormalize after top-k before they apply top-p, and
verification ignores min-p.

Shapes: M rows, F of them with filters left to apply, R some rows, K leading tokens of a row, V vocabulary.
"""

import torch
from torch import Tensor

from tlt_worker.scheduler.sampling import threshold
from tlt_worker.scheduler.sampling.cuts import Cuts
from tlt_worker.scheduler.sampling.fixed_point import whole
from tlt_worker.scheduler.sampling.forms import Form, form_of

LEADING = 1024
"""Tokens considered first: a row of 32,000 tokens takes 0.8 ms this way and 5.3 ms fully sorted (one busy core, top-p
0.9)."""


def truncate(probs_MV: Tensor, cuts: Cuts) -> Tensor:
    """
    Filter and normalize every row of `probs_MV`. Rows without filters are unchanged.

    Keeps the k most probable tokens; of these, the fewest that reach top-p; of these, the tokens with at least min-p
    times the largest probability. Ties are ordered by token id, so that a row never depends on other rows.
    """
    if form_of(probs_MV) is Form.FIXED:
        return threshold.truncate(probs_MV, cuts)
    size = probs_MV.shape[-1]
    left_F = cuts.filter(size).nonzero().view(-1)
    if not len(left_F):
        return probs_MV
    cut_MV = probs_MV.clone()
    for width in (min(LEADING, size), size):
        values_FK, ids_FK = _leading(probs_MV[left_F], width)
        is_kept_FK = _kept(values_FK, cuts.of(left_F))
        # Tokens beyond the leading ones are dropped if the smallest value kept exceeds all of them.
        lowest_F = torch.where(is_kept_FK, values_FK, 1.0).amin(-1)
        is_done_F = (lowest_F > values_FK[:, -1]) | (width == size)
        values_FK = torch.where(is_kept_FK, values_FK, 0.0)[is_done_F]
        values_FK = threshold.normalized(values_FK, whole(values_FK).sum(-1, keepdim=True))
        cut_MV[left_F[is_done_F]] = cut_MV.new_zeros(len(values_FK), size).scatter_(-1, ids_FK[is_done_F], values_FK)
        left_F = left_F[~is_done_F]
        if not len(left_F):
            break
    return cut_MV


def _leading(probs_FV: Tensor, width: int) -> tuple[Tensor, Tensor]:
    """Return the `width` largest values of every row, largest first, lower ids first among equals, and their ids."""
    if width == probs_FV.shape[-1]:
        ordered = probs_FV.sort(dim=-1, descending=True, stable=True)
        return ordered.values, ordered.indices
    ids_FK = probs_FV.topk(width, sorted=False).indices.sort(-1).values
    ordered = probs_FV.gather(-1, ids_FK).sort(dim=-1, descending=True, stable=True)
    return ordered.values, ids_FK.gather(-1, ordered.indices)


def _kept(values_FK: Tensor, cuts: Cuts) -> Tensor:
    mass_FK = whole(values_FK)
    before_FK = mass_FK.cumsum(-1) - mass_FK
    rank_K = torch.arange(values_FK.shape[-1], device=values_FK.device)
    return (
        (rank_K < cuts.top_ks.view(-1, 1))
        & (before_FK <= threshold.masses(cuts).view(-1, 1))
        & (values_FK >= values_FK[:, :1] * cuts.min_ps.view(-1, 1))
    )
