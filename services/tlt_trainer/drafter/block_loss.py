"""
The loss of a block drafter: soft cross-entropy of every draft, and smooth L1 to the policy's states.

A block may start after any state e of a sample whose successor is known: its anchor is the token of position e + 1, it
sees states up to e, and draft k is the token of position e + 2 + k, whose distribution the policy's state of position e
+ 1 + k determines. A draft's logits depend on the true tokens before it, as those of accepted drafts do.

Shapes: P states of a pack, S scored entries, A blocks, N drafts, C elements of a captured state, H hidden size,
V vocabulary.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from tlt_trainer.drafter.kinds.block import ANCHOR_EVERY, BlockDrafter
from tlt_trainer.drafter.loss import PASS_DECAY, Pack, PassScores
from tlt_trainer.drafter.precision import widened

SCORED_EVERY = 2
"""Of the entries of a pack that could begin a block, scores count one in so many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PackBlocks:
    """Positions of a pack's blocks, and the targets of their drafts."""

    entries: Tensor
    """(A,), indices of the last states that the blocks see."""
    seen: Tensor
    """(A, P), whether a block sees a state."""
    targets: Tensor
    """(A, N), indices of the states that determine each draft."""
    counted: Tensor
    """(A, N), whether these states exist."""

    @classmethod
    def behind(cls, entries_A: Tensor, pack: Pack, drafts: int) -> "PackBlocks":
        """Return the blocks that start after these states."""
        device, tokens = entries_A.device, pack.tokens
        places_P = torch.arange(tokens, device=device)
        lengths_S = torch.tensor(pack.layout.lengths).to(device)
        begins_P = places_P - pack.layout.offsets
        ends_P = begins_P + lengths_S.repeat_interleave(lengths_S, output_size=tokens)
        begins_A, ends_A = begins_P[entries_A, None], ends_P[entries_A, None]
        targets_AN = entries_A[:, None] + 1 + torch.arange(drafts, device=device)
        return cls(
            entries=entries_A,
            seen=(begins_A <= places_P) & (places_P <= entries_A[:, None]),
            targets=targets_AN.clamp(max=tokens - 1),
            counted=targets_AN < ends_A,
        )


def loss_of(
    drafter: BlockDrafter, embedding_VH: Tensor, head_VH: Tensor, pack: Pack, *, regression_weight: float | None = None
) -> PassScores:
    """
    Return the loss of blocks at random positions, scaled as if a block started at every scored entry.

    Only the drafter receives gradients.
    """
    count = min(len(pack.scored), -(-pack.tokens // ANCHOR_EVERY))
    chosen = torch.randperm(len(pack.scored), generator=drafter.choice)[:count].to(pack.scored.device)
    weight = drafter.regression_weight if regression_weight is None else regression_weight
    found = _scores(drafter, embedding_VH, head_VH, pack, pack.scored[chosen], drafter.form.drafts, weight)
    share = len(pack.scored) / max(1, count)
    return PassScores(loss=found.loss * share, hits=found.hits, accepted=found.accepted, counts=found.counts)


def scores_of(
    drafter: BlockDrafter, embedding_VH: Tensor, head_VH: Tensor, pack: Pack, *, drafts: int, temperature: float = 1.0
) -> PassScores:
    """
    Return how well the first `drafts` drafts predict the policy.

    A draft is weighted by the probability that all drafts before it are accepted, so that the product of the shares is
    the probability that all are accepted. For chains, whose drafts are equally good everywhere, this makes no
    difference; a block that starts badly continues badly.
    """
    count = min(drafts, drafter.form.drafts)
    entries = torch.split(pack.scored[::SCORED_EVERY], -(-pack.tokens // ANCHOR_EVERY))
    found = [
        _scores(drafter, embedding_VH, head_VH, pack, entries_A, count, 0.0, temperature=temperature)
        for entries_A in entries
    ]
    return PassScores(
        loss=torch.stack([one.loss for one in found]).sum(),
        hits=torch.stack([one.hits for one in found]).sum(0),
        accepted=torch.stack([one.accepted for one in found]).sum(0),
        counts=torch.stack([one.counts for one in found]).sum(0),
    )


def _scores(
    drafter: BlockDrafter,
    embedding_VH: Tensor,
    head_VH: Tensor,
    pack: Pack,
    entries_A: Tensor,
    drafts: int,
    regression_weight: float,
    *,
    temperature: float = 1.0,
) -> PassScores:
    blocks = PackBlocks.behind(entries_A, pack, drafts)
    captured_PC = pack.hidden.to(head_VH.dtype)
    states_ANH = captured_PC[:, -drafter.form.hidden_size :][blocks.targets]
    with torch.no_grad():
        shares_ANV = (widened(functional.linear(states_ANH, head_VH)) / temperature).softmax(-1)
    hidden_ANH = drafter(
        pack.next_ids[entries_A], pack.positions[entries_A] + 1, blocks.seen, captured_PC, pack.positions, embedding_VH
    )[:, :drafts]
    logits_ANV = widened(drafter.logits(hidden_ANH, pack.next_ids[blocks.targets - 1], head_VH))
    log_ANV = (logits_ANV / temperature).log_softmax(-1)
    losses_AN = -(shares_ANV * log_ANV).sum(-1)
    if regression_weight:
        distances_ANH = functional.smooth_l1_loss(widened(hidden_ANH), widened(states_ANH), reduction="none")
        losses_AN = losses_AN + regression_weight * distances_ANH.mean(-1)
    decay_N = PASS_DECAY ** torch.arange(drafts, device=entries_A.device)
    loss = (losses_AN * decay_N * blocks.counted).sum()
    with torch.no_grad():
        hits_AN = logits_ANV.argmax(-1) == shares_ANV.argmax(-1)
        kept_AN = torch.minimum(log_ANV.exp(), shares_ANV).sum(-1)
        weights_AN = _reached(log_ANV, shares_ANV, pack.next_ids[blocks.targets]) * blocks.counted
        return PassScores(
            loss=loss,
            hits=(hits_AN * weights_AN).sum(0),
            accepted=(kept_AN * weights_AN).sum(0),
            counts=weights_AN.sum(0),
        )


def _reached(log_ANV: Tensor, shares_ANV: Tensor, tokens_AN: Tensor) -> Tensor:
    """
    Return the probabilities, (A, N), that all drafts before each one are accepted.

    Given that a round produced a token, its draft was accepted with probability min(1, q / p).
    """
    said = tokens_AN[..., None]
    ratios_AN = (log_ANV.gather(-1, said).exp() / shares_ANV.gather(-1, said).clamp(min=1e-9))[..., 0].clamp(max=1)
    return functional.pad(ratios_AN.cumprod(1), (1, 0), value=1.0)[:, :-1]
