"""Response lengths of an RL run: prompts of different difficulty, groups, epochs, and a policy that changes."""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from math import exp


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """
    Lengths are log-normal around a level of the prompt; a share of responses goes on until the cap, as those do that
    repeat themselves.
    """

    name: str
    median_tokens: float
    of_prompt: float
    """Standard deviation of the logarithm between prompts."""
    of_epoch: float
    """The same between epochs of a prompt."""
    of_chance: float
    """The same between responses of one epoch."""
    endless: float
    """Share of responses without an end."""
    drift: float
    """Growth of the logarithm per step."""
    cap: int = 32_768


THINKING = Workload(
    name="thinking", median_tokens=5000, of_prompt=0.6, of_epoch=0.1, of_chance=0.5, endless=0.005, drift=0.01
)
"""A reasoning model: one response in 200 at the cap, one in 30 above 20,000 tokens."""
ALIKE = Workload(name="alike", median_tokens=3000, of_prompt=0.0, of_epoch=0.0, of_chance=0.8, endless=0.0, drift=0.0)
"""Prompts tell nothing: all spread is chance."""
DRIFTING = Workload(
    name="drifting", median_tokens=1500, of_prompt=0.5, of_epoch=0.3, of_chance=0.7, endless=0.02, drift=0.05
)
"""A policy whose responses grow by 5 % a step."""
WORKLOADS = (THINKING, ALIKE, DRIFTING)


@dataclass(frozen=True, slots=True)
class Drawn:
    """A response to come."""

    prompt: int
    length: int
    ends: bool
    """Whether it ends by itself; otherwise at the cap."""


def drawn_steps(
    workload: Workload, *, prompts: int, group: int, of: int, steps: int, seed: int
) -> Iterator[list[Drawn]]:
    """
    Yield the responses of successive steps: `group` to each of `prompts`, out of a set of `of`, in order of epochs.

    Args:
        workload: The distribution.
        prompts: Prompts of a step.
        group: Responses to each.
        of: Prompts in the data set.
        steps: Number of steps.
        seed: Of all draws.
    """
    chance = random.Random(f"{workload.name}/{seed}")
    levels = [chance.gauss(0.0, workload.of_prompt) for _ in range(of)]
    order = list[int]()
    for step in range(steps):
        if len(order) < prompts:
            order += chance.sample(range(of), of)
        chosen, order = order[:prompts], order[prompts:]
        yield [
            _response(workload, prompt, level, chance)
            for prompt in chosen
            for level in (levels[prompt] + chance.gauss(workload.drift * step, workload.of_epoch),)
            for _ in range(group)
        ]


def _response(workload: Workload, prompt: int, level: float, chance: random.Random) -> Drawn:
    length = round(workload.median_tokens * exp(level + chance.gauss(0.0, workload.of_chance)))
    if chance.random() < workload.endless or length >= workload.cap:
        return Drawn(prompt, workload.cap, ends=False)
    return Drawn(prompt, max(1, length), ends=True)
