"""
Causal attention over samples laid out as rows of batches with some padding.

Shapes: P states of a pack, R places of all rows, C rows of a run, T places of a row, N heads, D head size.
"""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional

from tlt_trainer.drafter.attention.layout import PackLayout
from tlt_trainer.drafter.attention.row_kernels import RowKernel
from tlt_trainer.drafter.precision import widened

PADDED = 1.1
"""A run of samples has at most this many places per state. Every run costs some ten kernel launches, padding the square
of its length: on a CPU 1.0 to 1.25 differ by less than 10 %."""


class RowAttention:
    """
    Attends samples of similar length together. Implements `CausalAttention`.

    Args:
        layout: Layout of the samples.
        kernel: Computes rows of equal length.
    """

    def __init__(self, layout: PackLayout, kernel: RowKernel) -> None:
        self._kernel = kernel
        runs = runs_of(layout.lengths)
        self._runs = [(len(run), run[-1]) for run in runs]
        states, first = list[Tensor](), 0
        for run in runs:
            for length in run:
                states.append(torch.arange(first, first + length))
                first += run[-1]
        self._places = first
        self._is_padded = first != layout.tokens
        self._states_P = torch.cat(states).to(layout.offsets.device)

    def forward(self, q_NPD: Tensor, k_NPD: Tensor, v_NPD: Tensor, lag: int) -> tuple[Tensor, Tensor]:
        outs, sums = list[Tensor](), list[Tensor]()
        for q, k, v in zip(*(self._rows(x) for x in (q_NPD, k_NPD, v_NPD)), strict=True):
            seen = max(q.shape[2] - lag, 0)
            if not seen:
                outs.append(torch.zeros_like(q))
                sums.append(widened(q.new_full(q.shape[:3], float("-inf"))))
                continue
            out, lse = self._kernel.forward(q[:, :, lag:], k[:, :, :seen], v[:, :, :seen])
            outs.append(functional.pad(out, (0, 0, lag, 0)))
            sums.append(functional.pad(lse, (lag, 0), value=float("-inf")))
        return self._pack(outs), self._pack([lse[..., None] for lse in sums])[..., 0]

    def backward(
        self, grad_NPD: Tensor, q_NPD: Tensor, k_NPD: Tensor, v_NPD: Tensor, out_NPD: Tensor, lse_NP: Tensor, lag: int
    ) -> tuple[Tensor, Tensor, Tensor]:
        found: tuple[list[Tensor], list[Tensor], list[Tensor]] = [], [], []
        laid = (self._rows(x) for x in (grad_NPD, q_NPD, k_NPD, v_NPD, out_NPD, lse_NP[..., None]))
        for grad, q, k, v, out, lse in zip(*laid, strict=True):
            seen = max(q.shape[2] - lag, 0)
            if not seen:
                for gradients, x in zip(found, (q, k, v), strict=True):
                    gradients.append(torch.zeros_like(x))
                continue
            dq, dk, dv = self._kernel.backward(
                grad[:, :, lag:],
                q[:, :, lag:],
                k[:, :, :seen],
                v[:, :, :seen],
                out[:, :, lag:],
                lse[:, :, lag:, 0],
            )
            for gradients, x, pad in zip(found, (dq, dk, dv), ((lag, 0), (0, lag), (0, lag)), strict=True):
                gradients.append(functional.pad(x, (0, 0, *pad)))
        dq, dk, dv = (self._pack(gradients) for gradients in found)
        return dq, dk, dv

    def _rows(self, x_NPD: Tensor) -> list[Tensor]:
        """Return the rows of each run, (C, N, T, D). Padding is zero, so that it contributes no gradient."""
        if self._is_padded:
            x_NPD = x_NPD.new_zeros(len(x_NPD), self._places, x_NPD.shape[-1]).index_copy(1, self._states_P, x_NPD)
        found, first = list[Tensor](), 0
        for rows, length in self._runs:
            run = x_NPD[:, first : first + rows * length]
            found.append(run.reshape(len(run), rows, length, -1).transpose(0, 1))
            first += rows * length
        return found

    def _pack(self, rows: Sequence[Tensor]) -> Tensor:
        x_NRD = torch.cat([x_CNTD.transpose(0, 1).flatten(1, 2) for x_CNTD in rows], dim=1)
        return x_NRD.index_select(1, self._states_P) if self._is_padded else x_NRD


def runs_of(lengths: Sequence[int]) -> list[list[int]]:
    """Group lengths in ascending order into runs."""
    found: list[list[int]] = []
    for length in lengths:
        if found and (len(found[-1]) + 1) * length <= PADDED * (sum(found[-1]) + length):
            found[-1].append(length)
        else:
            found.append([length])
    return found
