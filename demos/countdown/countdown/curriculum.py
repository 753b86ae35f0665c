"""
Problems of each training step, and the reward of an answer. Pure: a step's prompts depend on the seed only.

Small problems come first and are gradually replaced by larger ones. The shift changes the responses, so the drafter has
to adapt; reinforcement learning alone hardly changes a policy this small.
"""

import random
from dataclasses import dataclass
from typing import Final

from countdown.task import Mix, Problem, draw_problem, verify

SMALL: Final = Mix(two=1.0, three=0.0, four=0.0)
LARGE: Final = Mix(two=0.0, three=0.85, four=0.15)
"""Few problems are hard enough to reach the cap; these form the tail."""

LENGTH_PENALTY: Final = 0.3
"""Penalty for a response as long as the cap, so that the shorter of two correct answers scores higher."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Curriculum:
    """`first` for `hold_steps`, then a linear shift to `last` over `shift_steps`, then `last`."""

    first: Mix = SMALL
    last: Mix = LARGE
    hold_steps: int = 6
    shift_steps: int = 6

    def progress(self, step: int) -> float:
        """Return the progress of the shift at `step` (from 0), from 0 to 1. With `shift_steps` 0 it is immediate."""
        if step < self.hold_steps:
            return 0.0
        return min(1.0, (step - self.hold_steps + 1) / max(1, self.shift_steps))

    def mix(self, step: int) -> Mix:
        """Return the mix of number counts for `step`."""
        pairs = zip(self.first.weights, self.last.weights, strict=True)
        share = self.progress(step)
        two, three, four = ((1 - share) * before + share * after for before, after in pairs)
        return Mix(two=two, three=three, four=four)

    def problems(self, step: int, *, count: int, seed: int) -> list[Problem]:
        """Return `count` problems for `step`. Steps are independent, so a run can resume at any step."""
        rng = random.Random(f"{seed}/{step}")
        mix = self.mix(step)
        return [draw_problem(rng, mix) for _ in range(count)]


def reward(problem: Problem, response_text: str, *, length_tokens: int, cap_tokens: int) -> float:
    """
    Return correctness (1 or 0) minus `LENGTH_PENALTY` times the share of the cap used.

    Raises:
        ValueError: The length is negative or above the cap.
    """
    if not 0 <= length_tokens <= cap_tokens:
        raise ValueError(f"response length of {length_tokens} tokens is invalid under a cap of {cap_tokens}")
    return float(verify(problem, response_text)) - LENGTH_PENALTY * length_tokens / cap_tokens
