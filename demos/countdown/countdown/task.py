"""
Countdown: reach a target from two to four small numbers, using each number once.

The smallest task with the properties that matter for rollouts: a program checks the answer, the policy solves problems
by guessing and checking, and the number of guesses is random, so response lengths have a long tail.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

LARGEST_NUMBER: Final = 9
LARGEST_RESULT: Final = 40
"""Bound on every intermediate result. Keeps the number of arithmetic facts small enough for a 3 M parameter policy to
learn."""

ANSWER_MARK: Final = "Answer :"

COUNTS: Final = (2, 3, 4)
"""Possible numbers of numbers in a problem."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mix:
    """Relative frequency of problems with two, three and four numbers."""

    two: float
    three: float
    four: float

    @property
    def weights(self) -> tuple[float, float, float]:
        """Weights in the order of `COUNTS`."""
        return self.two, self.three, self.four


DEFAULT_MIX: Final = Mix(two=0.35, three=0.47, four=0.18)
"""Half of the responses finish within about 100 tokens; a few need thousands."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Reach `target` from `numbers` (ascending; each is used exactly once)."""

    numbers: tuple[int, ...]
    target: int

    @property
    def prompt(self) -> str:
        """The prompt text, such as `Numbers 2 7 . Target 5 .` for two numbers."""
        return f"Numbers {join(self.numbers)} . Target {self.target} ."


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One calculation: `left symbol right = result`."""

    left: int
    symbol: str
    right: int
    result: int

    def __str__(self) -> str:
        return f"{self.left} {self.symbol} {self.right} = {self.result}"

    @property
    def is_true(self) -> bool:
        """Whether the arithmetic holds."""
        match self.symbol:
            case "+":
                return self.left + self.right == self.result
            case "-":
                return self.left - self.right == self.result
            case "*":
                return self.left * self.right == self.result
            case _:
                return False

    def apply(self, numbers: Sequence[int]) -> tuple[int, ...]:
        """
        Return the remaining numbers, ascending, after replacing both operands by the result.

        Raises:
            ValueError: An operand is not in `numbers`.
        """
        remaining = list(numbers)
        remaining.remove(self.left)
        remaining.remove(self.right)
        return tuple(sorted([*remaining, self.result]))


def join(numbers: Sequence[int]) -> str:
    """Join numbers as words of the vocabulary."""
    return " ".join(map(str, numbers))


def legal_steps(first: int, second: int) -> tuple[Step, ...]:
    """Return every step on two numbers, larger one first, whose result is between 0 and `LARGEST_RESULT`."""
    low, high = sorted((first, second))
    candidates = (("-", high - low), ("+", high + low), ("*", high * low))
    return tuple(
        Step(left=high, symbol=symbol, right=low, result=result)
        for symbol, result in candidates
        if result <= LARGEST_RESULT
    )


def guess(problem: Problem, rng: random.Random, *, insight: float) -> tuple[Step, ...]:
    """
    Combine numbers at random until one is left: a complete guess, which may miss the target.

    Args:
        problem: Provides the numbers.
        rng: Source of every choice.
        insight: Probability that the last step chooses the target, if reachable, instead of a random result.
    """
    numbers, steps = problem.numbers, list[Step]()
    while len(numbers) > 1:
        candidates = legal_steps(*rng.sample(numbers, 2))
        hits = [step for step in candidates if step.result == problem.target]
        sees_target = len(numbers) == 2 and hits and rng.random() < insight
        step = rng.choice(hits if sees_target else candidates)
        numbers = step.apply(numbers)
        steps.append(step)
    return tuple(steps)


def draw_problem(rng: random.Random, mix: Mix = DEFAULT_MIX) -> Problem:
    """Return a random solvable problem: its target is the result of a random guess."""
    (count,) = rng.choices(COUNTS, mix.weights)
    while True:
        numbers = tuple(sorted(rng.randint(1, LARGEST_NUMBER) for _ in range(count)))
        target = guess(Problem(numbers=numbers, target=0), rng, insight=0)[-1].result
        if target > 0:
            return Problem(numbers=numbers, target=target)


def draw_problems(count: int, *, seed: int, mix: Mix = DEFAULT_MIX) -> list[Problem]:
    """Return `count` problems, determined by `seed` and `mix`."""
    rng = random.Random(seed)
    return [draw_problem(rng, mix) for _ in range(count)]


def verify(problem: Problem, response_text: str) -> bool:
    """
    Return whether the response ends in a correct derivation of the target that uses every number exactly once.

    Only the text after the last `Answer :` counts. A truncated response has no answer or an incomplete one.
    """
    _, mark, answer = response_text.replace("<eos>", "").rpartition(ANSWER_MARK)
    if not mark:
        return False
    numbers = problem.numbers
    for part in answer.split(";"):
        step = _parse_step(part)
        if step is None or not step.is_true:
            return False
        try:
            numbers = step.apply(numbers)
        except ValueError:  # an operand that is not in the problem, or is used twice
            return False
    return numbers == (problem.target,)


def _parse_step(text: str) -> Step | None:
    match text.split():
        case [left, symbol, right, "=", result] if left.isdecimal() and right.isdecimal() and result.isdecimal():
            return Step(left=int(left), symbol=symbol, right=int(right), result=int(result))
        case _:
            return None
