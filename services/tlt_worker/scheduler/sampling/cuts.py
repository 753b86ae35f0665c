"""Filters of a batch: top-k, top-p and min-p per row."""

from dataclasses import dataclass
from typing import Any

from torch import Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Cuts:
    """Filters of some rows, as in SGLang's sampling settings. Greedy rows have top-k 1."""

    top_ks: Tensor
    """[M]"""
    top_ps: Tensor
    """[M]"""
    min_ps: Tensor
    """[M]"""

    def of(self, rows_R: Tensor) -> "Cuts":
        """Return the filters of some of the rows."""
        return Cuts(top_ks=self.top_ks[rows_R], top_ps=self.top_ps[rows_R], min_ps=self.min_ps[rows_R])

    def filter(self, size: int) -> Tensor:
        """Return which rows have a filter, [M], for a vocabulary of this size."""
        return (self.top_ks < size) | (self.top_ps < 1.0) | (self.min_ps > 0.0)


def cuts_of(info: Any) -> Cuts | None:
    """Return the filters of an SGLang batch from its sampling settings; None if no request has any."""
    if not (info.need_top_k_sampling or info.need_top_p_sampling or info.need_min_p_sampling):
        return None
    return Cuts(top_ks=info.top_ks, top_ps=info.top_ps, min_ps=info.min_ps)
