"""
The loss of the draft layer: soft cross-entropy plus smooth L1, unrolled (EAGLE-3's training-time test).

Entry t of a sample receives the token of position t + 1 and the policy's state of position t, and predicts the state of
t + 1. Pass 0 reads the policy's states; pass u reads the outputs of pass u - 1, as drafting does for its u-th token.

Shapes: P states of a pack, S scored entries, H hidden size, V vocabulary.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from tlt_trainer.drafter.attention import Layout, PackedAttention, later_by, widened
from tlt_trainer.drafter.model import Drafter

PASSES = 3
"""Measured on the demo's model at 160 k tokens, chain of 5: 4.0 tokens per round with 3 passes, 2.7 with 1."""
PASS_DECAY = 0.8
"""The weight of pass u is PASS_DECAY ** u (EAGLE-3)."""
REGRESSION_WEIGHT = 0.1
"""Weight of smooth L1 on the states (EAGLE)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pack:
    """Samples of any lengths, one after the other, each a window of a response."""

    next_ids: Tensor
    """(P,): the token at the next position, int64."""
    hidden: Tensor
    """(P, H), the policy's states."""
    offsets: Tensor
    """(P,), indices of the states in their samples."""
    positions: Tensor
    """(P,), positions of the states in their sequences."""
    scored: Tensor
    """(S,), indices of the scored entries: the next state exists and the token to predict was generated."""
    lengths: tuple[int, ...]
    """States of each sample, in ascending order; P in total."""
    layout: Layout
    """Places of the samples during attention."""

    @property
    def tokens(self) -> int:
        """Number of states."""
        return sum(self.lengths)


@dataclass(frozen=True, slots=True, kw_only=True)
class PassScores:
    """Results of the passes, as tensors on the device, summed over scored entries."""

    loss: Tensor
    """Training loss, a scalar: decayed over passes. The loss of a pack is the sum of those of its samples."""
    hits: Tensor
    """(PASSES,): entries whose most likely token matches the policy's."""
    accepted: Tensor
    """(PASSES,): probabilities that a draft sampled at temperature 1 is accepted, one minus the total variation."""
    counts: Tensor
    """(PASSES,): scored entries."""


def unrolled_loss(drafter: Drafter, embedding_VH: Tensor, head_VH: Tensor, pack: Pack) -> PassScores:
    """
    Run all passes. Only the drafter receives gradients.

    The head, which costs more than the drafter if the vocabulary is large, sees scored entries only.
    """
    embedded = functional.embedding(pack.next_ids, embedding_VH)
    target_SH, offsets_S = pack.hidden[pack.scored + 1], pack.offsets[pack.scored]
    with torch.no_grad():
        target_SV = widened(functional.linear(target_SH, head_VH)).softmax(-1)
        best_S = target_SV.argmax(-1)
    turn, attend, begins_P1 = drafter.angles(pack.positions), PackedAttention(pack.layout), pack.offsets[:, None] == 0
    states, losses, hits, accepted, counts = pack.hidden, [], [], [], []
    for u in range(PASSES):
        guess = drafter(embedded, states, turn, attend)
        counted_S = offsets_S >= u  # pass u has no input before entry u
        guess_SH = guess.index_select(0, pack.scored)
        logits_SV = widened(functional.linear(guess_SH, head_VH))
        log_SV = logits_SV.log_softmax(-1)
        entries_S = -(target_SV * log_SV).sum(-1)
        distances_S = functional.smooth_l1_loss(widened(guess_SH), widened(target_SH), reduction="none").mean(-1)
        losses.append(PASS_DECAY**u * ((entries_S + REGRESSION_WEIGHT * distances_S) * counted_S).sum())
        hits.append(((logits_SV.argmax(-1) == best_S) & counted_S).sum().detach())
        with torch.no_grad():
            accepted.append((torch.minimum(log_SV.exp(), target_SV).sum(-1) * counted_S).sum())
        counts.append(counted_S.sum())
        states = later_by(guess, 1).masked_fill(begins_P1, 0)
    return PassScores(
        loss=torch.stack(losses).sum(),
        hits=torch.stack(hits),
        accepted=torch.stack(accepted),
        counts=torch.stack(counts),
    )
