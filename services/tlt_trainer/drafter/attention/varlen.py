"""
Causal attention over samples of different lengths in one kernel, without padding: torch's FlashAttention, on GPUs.

Shapes: P states of a pack, Q states that have a key, S samples, N heads, D head size.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from tlt_trainer.drafter.attention.layout import PackLayout
from tlt_trainer.drafter.precision import widened


class GpuFlash:
    """
    Causal attention over consecutive samples, (Q, N, D). `edges` (S + 1,), int32, holds their boundaries.

    Uses the operators behind `torch.nn.attention.varlen`, which does not accept a joint logsumexp.
    """

    def forward(
        self, q_QND: Tensor, k_QND: Tensor, v_QND: Tensor, edges: Tensor, longest: int
    ) -> tuple[Tensor, Tensor]:
        found = torch.ops.aten._flash_attention_forward(  # noqa: SLF001
            q_QND, k_QND, v_QND, edges, edges, longest, longest, 0.0, True, False
        )
        return found[0], found[1]

    def backward(
        self,
        grad_QND: Tensor,
        q_QND: Tensor,
        k_QND: Tensor,
        v_QND: Tensor,
        out_QND: Tensor,
        lse_NQ: Tensor,
        edges: Tensor,
        longest: int,
    ) -> tuple[Tensor, Tensor, Tensor]:
        dropout = torch.zeros(2, dtype=torch.uint64, device=q_QND.device)  # its random state: there is no dropout
        unused = torch.empty(0, device=q_QND.device)
        dq, dk, dv = torch.ops.aten._flash_attention_backward(  # noqa: SLF001
            grad_QND, q_QND, k_QND, v_QND, out_QND, lse_NQ, edges, edges, longest, longest, 0.0, True, dropout, unused
        )
        return dq, dk, dv


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """The states that have a key, and their last keys."""

    queries: Tensor
    """(Q,), indices of states."""
    keys: Tensor
    """(Q,), indices of states."""
    edges: Tensor
    """(S + 1,), boundaries of the samples among them, int32."""
    longest: int


class Varlen:
    """
    Attends all samples at once. Implements `CausalAttention`.

    Queries `lag` and later against keys without the last `lag` of their sample are plain causal attention.
    """

    def __init__(self, layout: PackLayout, flash: GpuFlash) -> None:
        self._layout = layout
        self._flash = flash
        self._lengths_S = torch.tensor(layout.lengths).to(layout.offsets.device)
        self._parts: dict[int, _Part] = {}

    def forward(self, q_NPD: Tensor, k_NPD: Tensor, v_NPD: Tensor, lag: int) -> tuple[Tensor, Tensor]:
        out_NPD = torch.zeros_like(q_NPD)
        lse_NP = widened(q_NPD.new_full(q_NPD.shape[:2], float("-inf")))
        if self._layout.lengths[-1] <= lag:
            return out_NPD, lse_NP
        part = self._part(lag)
        q, k, v = _taken(q_NPD, part.queries), _taken(k_NPD, part.keys), _taken(v_NPD, part.keys)
        out_QND, lse_NQ = self._flash.forward(q, k, v, part.edges, part.longest)
        out_NPD = out_NPD.index_copy(1, part.queries, out_QND.transpose(0, 1))
        return out_NPD, lse_NP.index_copy(1, part.queries, lse_NQ)

    def backward(
        self, grad_NPD: Tensor, q_NPD: Tensor, k_NPD: Tensor, v_NPD: Tensor, out_NPD: Tensor, lse_NP: Tensor, lag: int
    ) -> tuple[Tensor, Tensor, Tensor]:
        found = torch.zeros_like(q_NPD), torch.zeros_like(k_NPD), torch.zeros_like(v_NPD)
        if self._layout.lengths[-1] <= lag:
            return found
        part = self._part(lag)
        grad, q, out = (_taken(x, part.queries) for x in (grad_NPD, q_NPD, out_NPD))
        k, v = _taken(k_NPD, part.keys), _taken(v_NPD, part.keys)
        lse_NQ = lse_NP.index_select(1, part.queries)
        dq, dk, dv = self._flash.backward(grad, q, k, v, out, lse_NQ, part.edges, part.longest)
        return (
            found[0].index_copy(1, part.queries, dq.transpose(0, 1)),
            found[1].index_copy(1, part.keys, dk.transpose(0, 1)),
            found[2].index_copy(1, part.keys, dv.transpose(0, 1)),
        )

    def _part(self, lag: int) -> _Part:
        if lag not in self._parts:
            self._parts[lag] = self._part_of(lag)
        return self._parts[lag]

    def _part_of(self, lag: int) -> _Part:
        """
        Return the part for a lag. Sizes come from Python and all else is computed on the device, so that nothing waits
        for it.
        """
        count = sum(max(length - lag, 0) for length in self._layout.lengths)
        left_S = (self._lengths_S - lag).clamp(min=0)
        begins_S = self._lengths_S.cumsum(0) - self._lengths_S
        edges = functional.pad(left_S.cumsum(0), (1, 0))
        keys_Q = torch.arange(count, device=left_S.device)
        keys_Q = keys_Q + (begins_S - edges[:-1]).repeat_interleave(left_S, output_size=count)
        return _Part(queries=keys_Q + lag, keys=keys_Q, edges=edges.int(), longest=self._layout.lengths[-1] - lag)


def _taken(x_NPD: Tensor, states_Q: Tensor) -> Tensor:
    """Return the selected states, (Q, N, D)."""
    return x_NPD.transpose(0, 1).index_select(0, states_Q)
