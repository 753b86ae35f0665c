"""
The loss of the draft layer: soft cross-entropy plus smooth L1, unrolled (EAGLE-3's training-time test).

Entry t receives the token of position t + 1 and the policy's state of position t, and predicts the state of t + 1. Pass
0 reads the policy's states; pass u reads the outputs of pass u - 1, as drafting does for its u-th token. So a query of
pass u at t attends to the keys of pass 0 up to t - u, and of each later pass j to the one at t - (u - j).

Shapes: B windows, T states, H hidden size, V vocabulary, N heads, K key-value heads, D head size.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from tlt_trainer.drafter.model import Drafter

PASSES = 3
"""Measured on the demo's model at 160 k tokens, chain of 5: 4.0 tokens per round with 3 passes, 2.7 with 1."""
PASS_DECAY = 0.8
"""The weight of pass u is PASS_DECAY ** u (EAGLE-3)."""
REGRESSION_WEIGHT = 0.1
"""Weight of smooth L1 on the states (EAGLE)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Windows of equal length, padded at the end."""

    token_ids: Tensor
    """(B, T + 1)."""
    hidden: Tensor
    """(B, T, H), the policy's states."""
    positions: Tensor
    """(B, T), positions of the states in their sequences."""
    weights: Tensor
    """(B, T): 1 for scored entries: the next state exists and the token to predict was generated."""
    tokens: int
    """Number of states without padding."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PassScores:
    """Results of the passes, as tensors on the device, summed over scored entries."""

    loss: Tensor
    """Training loss, a scalar: decayed over passes, mean over entries."""
    hits: Tensor
    """(PASSES,): entries whose most likely token matches the policy's."""
    counts: Tensor
    """(PASSES,): scored entries."""


class _Unrolled:
    """Attention of the current pass over its own keys and those of the earlier passes."""

    def __init__(self) -> None:
        self._keys: list[Tensor] = []
        self._values: list[Tensor] = []

    def __call__(self, q_BNTD: Tensor, k_BKTD: Tensor, v_BKTD: Tensor) -> Tensor:
        groups = q_BNTD.shape[1] // k_BKTD.shape[1]
        self._keys.append(k_BKTD.repeat_interleave(groups, dim=1) if groups > 1 else k_BKTD)
        self._values.append(v_BKTD.repeat_interleave(groups, dim=1) if groups > 1 else v_BKTD)
        if len(self._keys) == 1:
            return functional.scaled_dot_product_attention(q_BNTD, self._keys[0], self._values[0], is_causal=True)
        return self._later(q_BNTD)

    def _later(self, q_BNTD: Tensor) -> Tensor:
        u, T = len(self._keys) - 1, q_BNTD.shape[2]
        q_BNTD = q_BNTD * q_BNTD.shape[-1] ** -0.5
        at = torch.arange(T, device=q_BNTD.device)
        scores = (q_BNTD @ self._keys[0].transpose(-1, -2)).masked_fill(at[None] > at[:, None] - u, float("-inf"))
        own = [(q_BNTD * _later_by(self._keys[j], u - j)).sum(-1, keepdim=True) for j in range(1, u + 1)]
        shares = torch.cat((scores, *own), dim=-1).softmax(-1, dtype=torch.float32).to(q_BNTD.dtype)
        y_BNTD = shares[..., :T] @ self._values[0]
        for j in range(1, u + 1):
            y_BNTD = y_BNTD + shares[..., T + j - 1, None] * _later_by(self._values[j], u - j)
        return y_BNTD


def _later_by(x: Tensor, n: int) -> Tensor:
    """Shift along T: entry t receives entry t - n; the first n entries become zero."""
    return functional.pad(x, (0, 0, n, 0))[..., : x.shape[-2], :] if n else x


def unrolled_loss(drafter: Drafter, embedding_VH: Tensor, head_VH: Tensor, batch: Batch) -> PassScores:
    """Run all passes. Only the drafter receives gradients."""
    embedded = functional.embedding(batch.token_ids[:, 1:], embedding_VH)
    with torch.no_grad():
        targets_BTV = functional.linear(batch.hidden, head_VH).float().softmax(-1)[:, 1:]
        best_BT = targets_BTV.argmax(-1)
    turn, attend = drafter.angles(batch.positions), _Unrolled()
    states, loss = batch.hidden, batch.hidden.new_zeros((), dtype=torch.float32)
    hits, counts = [], []
    for u in range(PASSES):
        guess = drafter(embedded, states, turn, attend)
        weights = batch.weights[:, :-1].clone()
        weights[:, :u] = 0  # pass u has no input before entry u
        logits = functional.linear(guess[:, :-1], head_VH).float()
        entries = -(targets_BTV * logits.log_softmax(-1)).sum(-1)
        distance = functional.smooth_l1_loss(guess[:, :-1].float(), batch.hidden[:, 1:].float(), reduction="none").mean(
            -1
        )
        count = weights.sum()
        loss = loss + PASS_DECAY**u * ((entries + REGRESSION_WEIGHT * distance) * weights).sum() / count.clamp(min=1)
        hits.append(((logits.argmax(-1) == best_BT) * weights).sum().detach())
        counts.append(count)
        states = _later_by(guess, 1)
    return PassScores(loss=loss, hits=torch.stack(hits), counts=torch.stack(counts))
