"""
The loss of a draft layer: soft cross-entropy and, for EAGLE, smooth L1, unrolled (EAGLE-3's training-time test).

Entry t of a sample receives the token of position t + 1 and the policy's state of position t, and predicts the state of
t + 1. Pass 0 reads the policy's states; pass u reads the outputs of pass u - 1, as drafting does for its u-th token.

The cross-entropy uses the policy's probabilities of the draft tokens. If these are not the whole vocabulary, an entry
is weighted by their total probability, since the drafter cannot predict other tokens.

Shapes: P states of a pack, S scored entries, C elements of a captured state, H hidden size, V vocabulary, D draft
tokens: all V for EAGLE.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from tlt_trainer.drafter.attention.layout import PackLayout
from tlt_trainer.drafter.attention.packed import PackedAttention
from tlt_trainer.drafter.kinds.draft_model import DraftModel
from tlt_trainer.drafter.precision import widened

PASS_DECAY = 0.8
"""The weight of pass u is PASS_DECAY ** u (EAGLE-3)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pack:
    """Samples of any lengths, one after another, each a window of a response."""

    next_ids: Tensor
    """(P,): the token at the next position, int64."""
    hidden: Tensor
    """(P, C), the policy's states: the last one, for EAGLE-3 preceded by those of the layers that the drafter reads."""
    positions: Tensor
    """(P,), positions of the states in their sequences."""
    scored: Tensor
    """(S,), indices of the scored entries: the next state exists and the token to predict was generated."""
    layout: PackLayout
    """Layout of the samples."""

    @property
    def tokens(self) -> int:
        """Number of states."""
        return self.layout.tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class PassScores:
    """Results of the passes, as tensors on the device, summed over scored entries."""

    loss: Tensor
    """Training loss, a scalar, decayed over passes. The loss of a pack is the sum over its samples."""
    hits: Tensor
    """(passes,): number of entries whose most likely token matches the policy's."""
    accepted: Tensor
    """(passes,): sum of the probabilities that a sampled draft is accepted, one minus the total variation."""
    counts: Tensor
    """(passes,): number of scored entries."""


def unrolled_loss(
    drafter: DraftModel,
    embedding_VH: Tensor,
    head_VH: Tensor,
    pack: Pack,
    *,
    passes: int | None = None,
    regression_weight: float | None = None,
    temperature: float = 1.0,
) -> PassScores:
    """
    Run all passes. Only the drafter receives gradients. None uses the defaults of the drafter's kind.

    The head is applied to scored entries only, since it costs more than the drafter if the vocabulary is large.
    """
    embedded = drafter.embedded(functional.embedding(pack.next_ids, embedding_VH), pack.positions)
    captured_PC = pack.hidden.to(head_VH.dtype)
    offsets_S = pack.layout.offsets[pack.scored]
    with torch.no_grad():
        target = drafter.targets(captured_PC[pack.scored + 1], cooled(head_VH, temperature))
    turn, attend = drafter.angles(pack.positions), PackedAttention(pack.layout, drafter.form.layer_count)
    states, losses, hits, accepted, counts = drafter.begin(captured_PC), [], [], [], []
    weight = drafter.regression_weight if regression_weight is None else regression_weight
    for u in range(passes or drafter.default_passes):
        guess = drafter(embedded, states, turn, attend)
        counted_S = offsets_S >= u  # pass u has no input before entry u
        guess_SH = guess.index_select(0, pack.scored)
        logits_SD = widened(drafter.logits(guess_SH, head_VH)) / temperature
        log_SD = logits_SD.log_softmax(-1)
        entries_S = -(target.shares * log_SD).sum(-1)
        if weight:
            distances_SH = functional.smooth_l1_loss(widened(guess_SH), widened(target.states), reduction="none")
            entries_S = entries_S + weight * distances_SH.mean(-1)
        losses.append(PASS_DECAY**u * (entries_S * counted_S).sum())
        hits.append(((logits_SD.argmax(-1) == target.best) & counted_S).sum().detach())
        with torch.no_grad():
            accepted.append((torch.minimum(log_SD.exp(), target.shares).sum(-1) * counted_S).sum())
        counts.append(counted_S.sum())
        states = pack.layout.later_by(guess, 1)
    return PassScores(
        loss=torch.stack(losses).sum(),
        hits=torch.stack(hits),
        accepted=torch.stack(accepted),
        counts=torch.stack(counts),
    )


def cooled(head_VH: Tensor, temperature: float) -> Tensor:
    """Return a head whose logits are divided by the temperature."""
    return head_VH if temperature == 1 else head_VH / temperature
