"""
Policy losses of the own loop.

Shapes: B responses of one step, samples of a prompt next to each other; T tokens, those of prompts and tools included.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from tlt_bench.curves.kind import Kind

CLIPPED = 0.02
"""How far GSPO's ratio of a response may be from 1. Its authors chose 4e-4, with both logprobs computed by the trainer;
the engine computes in bfloat16."""
TRUNCATED = 2.0
"""Maximum ratio of a token in asynchronous training."""
TINY = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What a step learns from."""

    logprobs: Tensor
    """(B, T), of the policy that learns; has gradients."""
    engine: Tensor
    """(B, T), of the policy that sampled, as the engine returned them; zero where nothing was sampled."""
    mask: Tensor
    """(B, T), whether the token was sampled."""
    rewards: Tensor
    """(B,)."""
    samples: int
    """Responses per prompt."""


def advantages(kind: Kind, rewards_B: Tensor, samples: int) -> Tensor:
    """Return the advantage of each response, (B,)."""
    rewards_PS = rewards_B.view(-1, samples)
    means_P1 = rewards_PS.mean(1, keepdim=True)
    if kind is Kind.REINFORCE:
        return (rewards_B - rewards_B.mean()) / (rewards_B.std() + TINY)
    if kind in {Kind.RLOO, Kind.TOOLS}:  # minus the mean of the others
        return ((rewards_PS - means_P1) * samples / (samples - 1)).flatten()
    # Scaled by batch: by group, one of only correct answers would learn from their lengths alone, and as strongly.
    return (rewards_PS - means_P1).flatten() / (rewards_B.std() + TINY)


def loss_of(kind: Kind, step: Step) -> Tensor:
    """Return the loss of a step, a scalar: the mean over sampled tokens; for GSPO, over responses."""
    advantages_B = advantages(kind, step.rewards, step.samples)
    ratios_BT = ((step.logprobs.detach() - step.engine) * step.mask).exp()
    if kind is Kind.GSPO:
        lengths_B = step.mask.sum(1).clamp(min=1)
        ratios_B = (((step.logprobs - step.engine) * step.mask).sum(1) / lengths_B).exp()
        clipped_B = ratios_B.clamp(1 - CLIPPED, 1 + CLIPPED)
        return -torch.minimum(ratios_B * advantages_B, clipped_B * advantages_B).mean()
    entries_BT = step.logprobs * advantages_B[:, None] * step.mask
    if kind is Kind.ASYNC:
        entries_BT = entries_BT * ratios_BT.clamp(max=TRUNCATED)
    return -entries_BT.sum() / step.mask.sum().clamp(min=1)
