"""
Causal attention over rows of equal length, and its gradients as one part of a softmax.

Shapes: C rows, N heads, T places of a row, D head size.
"""

from typing import Protocol

import torch
from torch import Tensor

from tlt_trainer.drafter.precision import widened


class RowKernel(Protocol):
    """`CausalAttention` for rows of equal length, at least one place, without lag."""

    def forward(self, q_CNTD: Tensor, k_CNTD: Tensor, v_CNTD: Tensor) -> tuple[Tensor, Tensor]:
        """Return the output, (C, N, T, D), and the logsumexp of the scores, (C, N, T)."""

    def backward(
        self, grad_CNTD: Tensor, q_CNTD: Tensor, k_CNTD: Tensor, v_CNTD: Tensor, out_CNTD: Tensor, lse_CNT: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return the gradients of queries, keys and values."""


class CpuFlash:
    """
    torch's flash attention for CPUs, in float32: in bfloat16 its backward pass takes up to 9 times as long.

    Empty rows crash the process ("Floating point exception").
    """

    def forward(self, q_CNTD: Tensor, k_CNTD: Tensor, v_CNTD: Tensor) -> tuple[Tensor, Tensor]:
        q, k, v = (widened(x) for x in (q_CNTD, k_CNTD, v_CNTD))
        out, lse = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(q, k, v, 0.0, True)  # noqa: SLF001
        return out, lse

    def backward(
        self, grad_CNTD: Tensor, q_CNTD: Tensor, k_CNTD: Tensor, v_CNTD: Tensor, out_CNTD: Tensor, lse_CNT: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        grad, q, k, v, out = (widened(x) for x in (grad_CNTD, q_CNTD, k_CNTD, v_CNTD, out_CNTD))
        dq, dk, dv = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward(  # noqa: SLF001
            grad, q, k, v, out, lse_CNT, 0.0, True
        )
        return dq, dk, dv


class Written:
    """Reference attention for any device and type. Keeps the full matrix of scores."""

    def forward(self, q_CNTD: Tensor, k_CNTD: Tensor, v_CNTD: Tensor) -> tuple[Tensor, Tensor]:
        scores = self._scores(q_CNTD, k_CNTD)
        lse_CNT = scores.logsumexp(-1)
        return (scores - lse_CNT[..., None]).exp().to(v_CNTD.dtype) @ v_CNTD, lse_CNT

    def backward(
        self, grad_CNTD: Tensor, q_CNTD: Tensor, k_CNTD: Tensor, v_CNTD: Tensor, out_CNTD: Tensor, lse_CNT: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        shares = (self._scores(q_CNTD, k_CNTD) - lse_CNT[..., None]).exp()
        towards = widened(grad_CNTD @ v_CNTD.transpose(-1, -2))
        towards -= (widened(grad_CNTD) * widened(out_CNTD)).sum(-1, keepdim=True)
        by_score = (shares * towards * q_CNTD.shape[-1] ** -0.5).to(q_CNTD.dtype)
        by_value = shares.to(grad_CNTD.dtype).transpose(-1, -2) @ grad_CNTD
        return by_score @ k_CNTD, by_score.transpose(-1, -2) @ q_CNTD, by_value

    def _scores(self, q_CNTD: Tensor, k_CNTD: Tensor) -> Tensor:
        scores = widened(q_CNTD * q_CNTD.shape[-1] ** -0.5 @ k_CNTD.transpose(-1, -2))
        return scores.masked_fill(torch.ones_like(scores, dtype=torch.bool).triu(1), float("-inf"))
