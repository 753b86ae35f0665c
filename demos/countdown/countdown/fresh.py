"""
The drafter that a run started with beside the newest one, on responses that no drafter was trained on. Pure.

A drafter that is adapted during a run learns from the responses of every step, so its accept length on those says
nothing about the next ones.
"""

import random
from collections.abc import Sequence

from tlt_common.config.base import Frozen

RESAMPLES = 2000
"""Bootstrap samples of the prompts."""


class PromptScore(Frozen):
    """How well a drafter drafts the responses to one prompt."""

    tokens: int
    """Tokens of the responses."""
    accepted: tuple[float, ...]
    """By place in a chain of drafts, the share that is accepted if those before it are."""


class FreshScores(Frozen):
    """Both drafters on the same responses, sampled after training, whose states were never captured."""

    temperature: float
    """Temperature at which drafts and tokens are sampled."""
    frozen: tuple[PromptScore, ...]
    """By prompt, of the drafter that the run started with."""
    adapted: tuple[PromptScore, ...]
    """By prompt, of the newest drafter that the run has trained."""


def accept_length(prompts: Sequence[PromptScore]) -> float:
    """Return the expected tokens per round of a chain, the bonus token included, over all tokens of these prompts."""
    tokens = sum(prompt.tokens for prompt in prompts)
    length = survives = 1.0
    for place in range(len(prompts[0].accepted)):
        survives *= sum(prompt.accepted[place] * prompt.tokens for prompt in prompts) / tokens
        length += survives
    return length


def adapted_over_frozen(scores: FreshScores) -> tuple[float, float, float]:
    """Return the ratio of accept lengths with its 95 % interval, bootstrapped over prompts in pairs."""
    pairs = list(zip(scores.adapted, scores.frozen, strict=True))
    rng = random.Random(0)
    drawn = sorted(_ratio(rng.choices(pairs, k=len(pairs))) for _ in range(RESAMPLES))
    return _ratio(pairs), drawn[RESAMPLES * 25 // 1000], drawn[RESAMPLES * 975 // 1000 - 1]


def _ratio(pairs: Sequence[tuple[PromptScore, PromptScore]]) -> float:
    adapted, frozen = ([pair[side] for pair in pairs] for side in (0, 1))
    return accept_length(adapted) / accept_length(frozen)
