"""
Which problems a training step asks, and what an answer is worth. Pure: a step's prompts depend on the seed only.

Small problems come first and give way to larger ones. The shift changes what responses look like, so it is also
what a drafter has to adapt to; a policy this small hardly drifts by reinforcement learning alone.
"""

import random
from dataclasses import dataclass
from typing import Final

from tlt_lab.demo.task import Mix, Problem, draw_problem, verify

SMALL: Final = Mix(two=1.0, three=0.0, four=0.0)
LARGE: Final = Mix(two=0.0, three=0.85, four=0.15)
"""Few are so hard that they run into the cap: those are the tail."""

LENGTH_PENALTY: Final = 0.3
"""Of a response as long as the cap, so that of two correct answers the shorter one is better."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Curriculum:
    """`first` for `hold_steps`, then towards `last` in a straight line over `shift_steps`, then `last`."""

    first: Mix = SMALL
    last: Mix = LARGE
    hold_steps: int = 6
    shift_steps: int = 6

    def progress(self, step: int) -> float:
        """How far the shift has come at `step` (the first is 0), from 0 to 1. Without `shift_steps` it is sudden."""
        if step < self.hold_steps:
            return 0.0
        return min(1.0, (step - self.hold_steps + 1) / max(1, self.shift_steps))

    def mix(self, step: int) -> Mix:
        """The mix of number counts that `step` draws from."""
        pairs = zip(self.first.weights, self.last.weights, strict=True)
        share = self.progress(step)
        two, three, four = ((1 - share) * before + share * after for before, after in pairs)
        return Mix(two=two, three=three, four=four)

    def problems(self, step: int, *, count: int, seed: int) -> list[Problem]:
        """The `count` problems of `step`. Steps are independent, so a run can resume anywhere."""
        rng = random.Random(f"{seed}/{step}")
        mix = self.mix(step)
        return [draw_problem(rng, mix) for _ in range(count)]


def reward(problem: Problem, response_text: str, *, length_tokens: int, cap_tokens: int) -> float:
    """
    Correctness (1 or 0) minus `LENGTH_PENALTY` for the share of the cap that was used.

    Raises:
        ValueError: The length is negative or above the cap.
    """
    if not 0 <= length_tokens <= cap_tokens:
        raise ValueError(f"a response of {length_tokens} tokens under a cap of {cap_tokens}")
    return float(verify(problem, response_text)) - LENGTH_PENALTY * length_tokens / cap_tokens
