"""Responses drawn from a distribution: prompts of different difficulty, groups, epochs, and a policy that changes."""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from math import exp

from tlt_common.errors import ConfigError
from tlt_simulator.trace import RunTrace, TraceSample, TraceStep
from tlt_simulator.traces.lengths import LengthSpec

EPOCH_STEPS = 8
"""Steps of an epoch, unless the size of the data set is given."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """A drawn response."""

    prompt: int
    length: int
    ends: bool
    """Whether it ends by itself rather than at the cap."""


def drawn_steps(
    spec: LengthSpec, *, prompts: int, group: int, of: int, steps: int, seed: int | str
) -> Iterator[list[Drawn]]:
    """
    Yield the responses of successive steps: `group` for each of `prompts` prompts, taken from a set of `of` in order of
    epochs.

    Args:
        spec: The distribution.
        prompts: Prompts per step.
        group: Responses per prompt.
        of: Prompts in the data set.
        steps: Number of steps.
        seed: Seed of all draws.
    """
    chance = random.Random(seed)
    levels = [chance.gauss(0.0, spec.prompt_spread) for _ in range(of)]
    order = list[int]()
    for step in range(steps):
        while len(order) < prompts:
            order += chance.sample(range(of), of)
        chosen, order = order[:prompts], order[prompts:]
        yield [
            _response(spec, prompt, level, exp(spec.drift * step), chance)
            for prompt in chosen
            for level in (levels[prompt] + chance.gauss(0.0, spec.epoch_spread),)
            for _ in range(group)
        ]


def _response(spec: LengthSpec, prompt: int, level: float, growth: float, chance: random.Random) -> Drawn:
    length = round(growth * spec.tokens(level + chance.gauss(0.0, spec.chance_spread)))
    if chance.random() < spec.endless or length >= spec.cap:
        return Drawn(prompt, spec.cap, ends=False)
    return Drawn(prompt, max(1, length), ends=True)


def drawn_trace(
    spec: LengthSpec, *, steps: int, prompts: int, group: int, seed: int = 0, of: int | None = None
) -> RunTrace:
    """
    Return a trace whose lengths are drawn.

    Args:
        spec: The distribution.
        steps: Number of steps.
        prompts: Prompts per step.
        group: Responses per prompt.
        seed: Seed of all draws.
        of: Prompts in the data set; None for those of eight steps.

    Raises:
        ConfigError: A number is below 1.
    """
    of = EPOCH_STEPS * prompts if of is None else of
    for name, value in (("steps", steps), ("prompts", prompts), ("group", group), ("of", of)):
        if type(value) is not int or value < 1:
            raise ConfigError(f"{name} is {value!r}; accepted: a whole number of at least 1", field=name)
    drawn = drawn_steps(spec, prompts=prompts, group=group, of=of, steps=steps, seed=seed)
    return RunTrace(
        source=f"drawn with seed {seed}",
        steps=tuple(TraceStep(samples=tuple(_sample(one, spec) for one in step)) for step in drawn),
        cap=spec.cap,
        notes=(f"lengths are drawn, not read: {spec}",),
    )


def _sample(one: Drawn, spec: LengthSpec) -> TraceSample:
    return TraceSample(prompt=one.prompt, prompt_tokens=spec.prompt_tokens, tokens=one.length, ends=one.ends)
