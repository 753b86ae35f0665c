"""
Attention within the samples of a pack, over the passes of one unrolled training step.

A query never sees another sample: for attention alone, samples of similar length are laid out as rows of a batch, with
some padding behind them. The keys of pass 0 come from the policy's states; a query of pass u at t attends to them up to
t - u, and of each later pass j to the one at t - (u - j), as drafting does for its u-th token.

Shapes: P states of a pack, R rows times places of its layout, C rows of a run, T places of a row, N heads, K key-value
heads, D head size.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor
from torch.nn import functional

PADDED = 1.1
"""A run of samples has at most this many places per state. Every run costs some fifty kernel launches, padding the
square of its length: on a CPU 1.0 to 1.25 differ by less than 10 %."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Where the samples of a pack are during attention."""

    runs: tuple[tuple[int, int], ...]
    """Rows and places per row of each run."""
    places: Tensor
    """(R,), the state at each place; padding repeats the last one of its sample. No other place sees it."""
    states: Tensor
    """(P,), the place of each state."""

    @property
    def is_padded(self) -> bool:
        """Whether there is any padding; otherwise places and states are the same."""
        return len(self.places) != len(self.states)

    @classmethod
    def of(cls, lengths: Sequence[int], device: torch.device) -> Self:
        """Return the layout of samples of these lengths, in ascending order."""
        places, states = list[Tensor](), list[Tensor]()
        first = place = 0
        runs = _runs(lengths)
        for run in runs:
            for length in run:
                states.append(place + torch.arange(length))
                places.append(first + torch.arange(run[-1]).clamp(max=length - 1))
                first, place = first + length, place + run[-1]
        return cls(
            runs=tuple((len(run), run[-1]) for run in runs),
            places=torch.cat(places).to(device),
            states=torch.cat(states).to(device),
        )


def _runs(lengths: Sequence[int]) -> list[list[int]]:
    found: list[list[int]] = []
    for length in lengths:
        if found and (len(found[-1]) + 1) * length <= PADDED * (sum(found[-1]) + length):
            found[-1].append(length)
        else:
            found.append([length])
    return found


class PackedAttention:
    """Attention of the current pass over its own keys and those of the earlier passes. Called once per pass."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._passes = [_Passes() for _ in layout.runs]

    def __call__(self, q_NPD: Tensor, k_KPD: Tensor, v_KPD: Tensor) -> Tensor:
        layout, found, first = self._layout, [], 0
        laid = [x.index_select(1, layout.places) if layout.is_padded else x for x in (q_NPD, k_KPD, v_KPD)]
        for (rows, length), passes in zip(layout.runs, self._passes, strict=True):
            run = slice(first, first + rows * length)
            q, k, v = (x[:, run].reshape(len(x), rows, length, -1).transpose(0, 1) for x in laid)
            found.append(passes(q, k, v).transpose(0, 1).flatten(1, 2))
            first = run.stop
        y_NRD = torch.cat(found, dim=1) if len(found) > 1 else found[0]
        return y_NRD.index_select(1, layout.states) if layout.is_padded else y_NRD


class _Passes:
    """Keys and values of the passes so far, of one run."""

    def __init__(self) -> None:
        self._keys: list[Tensor] = []
        self._values: list[Tensor] = []

    def __call__(self, q_CNTD: Tensor, k_CKTD: Tensor, v_CKTD: Tensor) -> Tensor:
        groups = q_CNTD.shape[1] // k_CKTD.shape[1]
        self._keys.append(k_CKTD.repeat_interleave(groups, dim=1) if groups > 1 else k_CKTD)
        self._values.append(v_CKTD.repeat_interleave(groups, dim=1) if groups > 1 else v_CKTD)
        if len(self._keys) == 1:
            return functional.scaled_dot_product_attention(q_CNTD, self._keys[0], self._values[0], is_causal=True)
        return self._later(q_CNTD)

    def _later(self, q_CNTD: Tensor) -> Tensor:
        u, T = len(self._keys) - 1, q_CNTD.shape[2]
        q_CNTD = q_CNTD * q_CNTD.shape[-1] ** -0.5
        at = torch.arange(T, device=q_CNTD.device)
        scores = (q_CNTD @ self._keys[0].transpose(-1, -2)).masked_fill(at[None] > at[:, None] - u, float("-inf"))
        own = [(q_CNTD * later_by(self._keys[j], u - j)).sum(-1, keepdim=True) for j in range(1, u + 1)]
        shares = widened(torch.cat((scores, *own), dim=-1)).softmax(-1).to(q_CNTD.dtype)
        y_CNTD = shares[..., :T] @ self._values[0]
        for j in range(1, u + 1):
            y_CNTD = y_CNTD + shares[..., T + j - 1, None] * later_by(self._values[j], u - j)
        return y_CNTD


def later_by(x: Tensor, n: int) -> Tensor:
    """Shift along the second to last dimension: entry t receives entry t - n; the first n entries become zero."""
    return functional.pad(x, (0, 0, n, 0))[..., : x.shape[-2], :] if n else x


def widened(x: Tensor) -> Tensor:
    """Return it in float32, or in float64 if it is."""
    return x.to(torch.promote_types(x.dtype, torch.float32))
