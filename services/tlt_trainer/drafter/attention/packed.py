"""
Attention over the passes of one unrolled training step.

A query never sees another sample. The keys of pass 0 come from the policy's states; a query of pass u at t attends to
them up to t - u, and of each later pass j to the one at t - (u - j), as drafting does for its u-th token: causal
attention, and one key more per later pass.

Shapes: P states of a pack, N heads, K key-value heads, D head size, J later passes.
"""

from typing import Any

import torch
from torch import Tensor

from tlt_trainer.drafter.attention.causal import CausalAttention
from tlt_trainer.drafter.attention.choice import attention_for
from tlt_trainer.drafter.attention.layout import PackLayout
from tlt_trainer.drafter.precision import widened


class PackedAttention:
    """
    Attention of the current pass over its own keys and those of earlier passes.

    Called once per pass and layer. A pass runs its layers in order, and each layer attends to its own keys.
    """

    def __init__(self, layout: PackLayout, layers: int = 1) -> None:
        self._layout = layout
        self._causal: CausalAttention | None = None
        self._passes: list[tuple[list[Tensor], list[Tensor]]] = [([], []) for _ in range(layers)]
        self._calls = 0

    def __call__(self, q_NPD: Tensor, k_KPD: Tensor, v_KPD: Tensor) -> Tensor:
        if self._causal is None:
            self._causal = attention_for(self._layout, q_NPD)
        groups = len(q_NPD) // len(k_KPD)
        keys, values = self._passes[self._calls % len(self._passes)]
        self._calls += 1
        keys.append(k_KPD.repeat_interleave(groups, dim=0) if groups > 1 else k_KPD)
        values.append(v_KPD.repeat_interleave(groups, dim=0) if groups > 1 else v_KPD)
        u = len(keys) - 1
        own = [self._own(of_passes, u) for of_passes in (keys, values)]
        y_NPD: Tensor = _Attention.apply(self._causal, u, q_NPD, keys[0], values[0], *own)
        return y_NPD

    def _own(self, of_passes: list[Tensor], u: int) -> Tensor:
        """Return the keys of later passes that each query sees, (J, N, P, D)."""
        if not u:
            return of_passes[0].new_empty(0, *of_passes[0].shape)
        return torch.stack([self._layout.later_by(of_passes[j], u - j) for j in range(1, u + 1)])


class _Attention(torch.autograd.Function):
    """One softmax over the keys of pass 0 and those of later passes; `CausalAttention` computes the former."""

    @staticmethod
    def forward(
        ctx: Any, causal: CausalAttention, lag: int, q: Tensor, k: Tensor, v: Tensor, k_JNPD: Tensor, v_JNPD: Tensor
    ) -> Tensor:
        out, lse_NP = causal.forward(q, k, v, lag)
        shares_JNP = lse_NP[:0]
        if lag:
            scores_JNP = _dots(k_JNPD, q) * q.shape[-1] ** -0.5
            joint_NP = torch.logaddexp(lse_NP, scores_JNP.logsumexp(0))
            shares_JNP = (scores_JNP - joint_NP).exp()
            out = out * (lse_NP - joint_NP).exp()[..., None] + (shares_JNP[..., None] * v_JNPD).sum(0)
            lse_NP = joint_NP
        out = out.to(q.dtype)
        ctx.causal, ctx.lag = causal, lag
        ctx.save_for_backward(q, k, v, k_JNPD, v_JNPD, shares_JNP, out, lse_NP)
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (grad,) = grads
        q, k, v, k_JNPD, v_JNPD, shares_JNP, out, lse_NP = ctx.saved_tensors
        dq, dk, dv = ctx.causal.backward(grad, q, k, v, out, lse_NP, ctx.lag)
        if not ctx.lag:
            return None, None, dq.to(q.dtype), dk.to(k.dtype), dv.to(v.dtype), None, None
        by_score_JNP = shares_JNP * (_dots(v_JNPD, grad) - _dots(out, grad)) * q.shape[-1] ** -0.5
        dq = dq + (by_score_JNP[..., None] * k_JNPD).sum(0)
        found = dq, dk, dv, by_score_JNP[..., None] * q, shares_JNP[..., None] * grad
        return None, None, *(x.to(q.dtype) for x in found)


def _dots(x: Tensor, y: Tensor) -> Tensor:
    return (widened(x) * widened(y)).sum(-1)
