"""
Layout of samples in a pack.

Shapes: P states of a pack, S samples.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor
from torch.nn import functional


@dataclass(frozen=True, slots=True, kw_only=True)
class PackLayout:
    """Samples of any lengths, one after another, in ascending order of length."""

    lengths: tuple[int, ...]
    """States of each sample, in ascending order; P in total."""
    offsets: Tensor
    """(P,), indices of the states in their samples."""

    @classmethod
    def of(cls, lengths: Sequence[int], device: torch.device) -> Self:
        """Return the layout of samples of these lengths, in ascending order."""
        offsets = torch.cat([torch.arange(length) for length in lengths])
        return cls(lengths=tuple(lengths), offsets=offsets.to(device))

    @property
    def tokens(self) -> int:
        """Number of states."""
        return sum(self.lengths)

    def later_by(self, x: Tensor, n: int) -> Tensor:
        """
        Shift (..., P, D): each state receives the value of the n-th state before it; the first n of each sample get
        zero.
        """
        if n == 0:
            return x
        shifted = functional.pad(x, (0, 0, n, 0))[..., : x.shape[-2], :]
        return shifted.masked_fill(self.offsets[:, None] < n, 0)
