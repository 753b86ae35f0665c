"""
Workload of benchmark engines: problems of the demo's task, and response lengths.

Lengths are fixed, because two arms with responses of different lengths could not be compared. A response that reaches
its end token continues, mostly with the policy's next problem, which is as hard to draft for.
"""

import math
import random

from countdown.task import DEFAULT_MIX, Mix, draw_problems
from countdown.vocabulary import prompt_ids

Prompts = tuple[tuple[int, ...], ...]

HARD = Mix(two=0, three=0, four=1)
"""Problems with long responses: hardly any ends within the first hundred tokens."""

LONGEST_TOKENS = 1024
PROMPT_TOKENS = 64
"""Tokens that a prompt may have."""
SHORTEST_TOKENS = 40
MEAN_TOKENS = 290
"""Mean length of the shipped policy's responses with that cap; half of them have 154 tokens or fewer."""


def hard_prompts(count: int, *, seed: int) -> Prompts:
    """Return the token ids of problems with four numbers."""
    return tuple(tuple(prompt_ids(problem.prompt)) for problem in draw_problems(count, seed=seed, mix=HARD))


def mixed_prompts(count: int, *, seed: int) -> Prompts:
    """Return the token ids of problems with the training mix."""
    return tuple(tuple(prompt_ids(problem.prompt)) for problem in draw_problems(count, seed=seed, mix=DEFAULT_MIX))


def long_tailed(count: int, *, seed: int, longest: int = LONGEST_TOKENS) -> tuple[int, ...]:
    """
    Return response lengths of a rollout: the quantiles of a shifted exponential, with the longest at the cap.

    Of 32: one of 1024 tokens, one in ten above 600, half below 220.
    """
    scale = (MEAN_TOKENS - SHORTEST_TOKENS) * longest / LONGEST_TOKENS
    quantiles = [(place + 0.5) / count for place in range(count)]
    lengths = [min(longest, round(SHORTEST_TOKENS - scale * math.log1p(-quantile))) for quantile in quantiles]
    lengths[-1] = longest
    random.Random(seed).shuffle(lengths)
    return tuple(lengths)
