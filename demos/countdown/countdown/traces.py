"""
Training data: reasoning traces and drills, as tokens with one loss weight each.

A trace restates the numbers and the target in every attempt, so nothing has to be remembered beyond one attempt, and it
states how the result compares with the target before continuing. Drills practice single calculations and comparisons,
which are too rare in traces to be learned from them alone.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from countdown.task import (
    ANSWER_MARK,
    DEFAULT_MIX,
    LARGEST_RESULT,
    Mix,
    Problem,
    Step,
    draw_problem,
    guess,
    join,
    legal_steps,
)
from countdown.vocabulary import BOS_ID, EOS_ID, OPENERS, REMARKS, VOCABULARY, encode, prompt_ids

INSIGHT: Final = 0.2
"""Probability that an imitated guess reaches the target on purpose. Low, to leave room for reinforcement learning."""

ATTEMPT_LIMIT: Final = 70
DRILLS_PER_SAMPLE: Final = 12

RESULT_WEIGHT: Final = 2.0
VERDICT_WEIGHT: Final = 4.0
"""Comparing two numbers is the slowest skill to learn, and one wrong verdict spoils a whole response."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """Token ids and the loss weight of predicting each. Weights above 1 mark computed tokens."""

    ids: tuple[int, ...]
    weights: tuple[float, ...]


def attempt_text(problem: Problem, steps: tuple[Step, ...], rng: random.Random) -> str:
    """Return one guess as text, including its verdict; a guess that reaches the target ends with the answer."""
    numbers, calculations = problem.numbers, list[str]()
    for step in steps:
        numbers = step.apply(numbers)
        calculations.append(f"{step} , left {join(numbers)}" if len(numbers) > 1 else f"{step}")
    result, target = steps[-1].result, problem.target
    words = f"{rng.choice(OPENERS)} {join(problem.numbers)} for {target} : {' ; '.join(calculations)} ."
    words = f"{words} {verdict_text(result, target)}"
    if result == target:
        return f"{words} . {ANSWER_MARK} {' ; '.join(map(str, steps))}"
    return f"{words} . {rng.choice(REMARKS)}".rstrip()


def verdict_text(result: int, target: int) -> str:
    """Return the comparison of a result with the target."""
    verdict = "right" if result == target else "too small" if result < target else "too big"
    return f"Got {result} , want {target} , {verdict}"


def trace_text(problem: Problem, rng: random.Random) -> tuple[str, bool]:
    """Return guesses until one reaches the target, and whether one did within `ATTEMPT_LIMIT`."""
    attempts = list[str]()
    for _ in range(ATTEMPT_LIMIT):
        steps = guess(problem, rng, insight=INSIGHT)
        attempts.append(attempt_text(problem, steps, rng))
        if steps[-1].result == problem.target:
            return " ".join(attempts), True
    return " ".join(attempts), False


def trace_sample(rng: random.Random, mix: Mix = DEFAULT_MIX) -> Sample:
    """Return a prompt (weight 0, because it is random) followed by a trace that solves it."""
    problem = draw_problem(rng, mix)
    text, solved = trace_text(problem, rng)
    prompt = prompt_ids(problem.prompt)
    response = encode(text) + [EOS_ID] * solved
    return Sample(ids=(*prompt, *response), weights=(*[0.0] * len(prompt), *loss_weights(response)))


def drill_sample(rng: random.Random) -> Sample:
    """Return a sequence of short exercises. Only computed tokens count; the exercises themselves are random."""
    ids = [BOS_ID]
    for _ in range(DRILLS_PER_SAMPLE):
        ids += encode(_comparison(rng) if rng.random() < 0.4 else _calculation(rng))
    return Sample(ids=tuple(ids), weights=tuple(weight if weight > 1 else 0.0 for weight in loss_weights(ids)))


def _comparison(rng: random.Random) -> str:
    target = rng.randint(1, LARGEST_RESULT)
    near = min(LARGEST_RESULT, max(0, target + rng.randint(-6, 6)))
    # Equal and close pairs are the hardest, and rare among independently drawn pairs.
    (result,) = rng.choices((target, near, rng.randint(0, LARGEST_RESULT)), (0.35, 0.35, 0.30))
    return f"{verdict_text(result, target)} ."


def _calculation(rng: random.Random) -> str:
    second = rng.randint(0, 15 if rng.random() < 0.7 else LARGEST_RESULT)
    return f"{rng.choice(legal_steps(rng.randint(0, LARGEST_RESULT), second))} ;"


def loss_weights(ids: list[int]) -> list[float]:
    """Return a weight per token: `RESULT_WEIGHT` after `=`, `VERDICT_WEIGHT` for verdict words, otherwise 1."""
    equals, want, too = VOCABULARY["="], VOCABULARY["want"], VOCABULARY["too"]
    weights = [1.0] * len(ids)
    for index in range(1, len(ids)):
        if ids[index - 1] == equals:
            weights[index] = RESULT_WEIGHT
        is_verdict = index >= 3 and ids[index - 3] == want  # want 5 , right
        is_direction = index >= 4 and ids[index - 4] == want and ids[index - 1] == too  # want 5 , too big
        if is_verdict or is_direction:
            weights[index] = VERDICT_WEIGHT
    return weights


def samples(rng: random.Random, *, drill_share: float, mix: Mix = DEFAULT_MIX) -> Iterator[Sample]:
    """Yield traces and drills indefinitely; `drill_share` of the samples are drills."""
    while True:
        yield drill_sample(rng) if rng.random() < drill_share else trace_sample(rng, mix)
