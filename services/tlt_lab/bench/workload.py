"""
What engines of a bench are asked: problems of the demo's task, and how long the answers are.

Lengths are given, not left to chance: two arms that drew different answers would differ by those. An answer that
reaches its end token goes on, with the policy's next problem mostly, which is as hard to draft for.
"""

import math
import random

from tlt_lab.demo.task import DEFAULT_MIX, Mix, draw_problems
from tlt_lab.demo.vocabulary import prompt_ids

Prompts = tuple[tuple[int, ...], ...]

HARD = Mix(two=0, three=0, four=1)
"""Problems whose answers are long: hardly any ends within the first hundred tokens."""

LONGEST_TOKENS = 1024
PROMPT_TOKENS = 64
"""Room for a prompt."""
SHORTEST_TOKENS = 40
MEAN_TOKENS = 290
"""Of the shipped policy's answers with that cap; half of them have 154 tokens or less."""


def hard_prompts(count: int, *, seed: int) -> Prompts:
    """Token ids of problems of four numbers."""
    return tuple(tuple(prompt_ids(problem.prompt)) for problem in draw_problems(count, seed=seed, mix=HARD))


def mixed_prompts(count: int, *, seed: int) -> Prompts:
    """Token ids of problems as training draws them."""
    return tuple(tuple(prompt_ids(problem.prompt)) for problem in draw_problems(count, seed=seed, mix=DEFAULT_MIX))


def long_tailed(count: int, *, seed: int, longest: int = LONGEST_TOKENS) -> tuple[int, ...]:
    """
    Lengths of a rollout's answers: evenly spread over the quantiles of a shifted exponential, the longest at the cap.

    Of 32: one of 1024 tokens, one in ten above 600, half below 220.
    """
    scale = (MEAN_TOKENS - SHORTEST_TOKENS) * longest / LONGEST_TOKENS
    quantiles = [(place + 0.5) / count for place in range(count)]
    lengths = [min(longest, round(SHORTEST_TOKENS - scale * math.log1p(-quantile))) for quantile in quantiles]
    lengths[-1] = longest
    random.Random(seed).shuffle(lengths)
    return tuple(lengths)
