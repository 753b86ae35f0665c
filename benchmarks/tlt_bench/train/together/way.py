"""What the ways of learning together have in common: scores of the fleet's drafter on the way."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from tlt_bench.train.together.member import TrainingMember

EVERY_TOKENS = 4096
"""States that a member trains on between two merges: seconds on a CPU, and on a GPU much less than trainers wait."""

Weights = Mapping[str, Tensor]


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """The fleet's drafter on the way."""

    seconds: float
    """Since the beginning, if every member had a device of its own."""
    tokens: int
    """States that all members were trained on."""
    accept_length: float


class Journey:
    """
    Scores the fleet's drafter a few times while the fleet sees so many states.

    Args:
        score: Returns the accept length of weights on held-out prompts.
    """

    def __init__(self, tokens: int, score: Callable[[Weights], float], *, points: int) -> None:
        self.tokens = tokens
        self.seen = 0
        self.points: list[Point] = []
        self._score = score
        self._every = tokens / points

    @property
    def share(self) -> float:
        """Share of the states that have been seen."""
        return self.seen / self.tokens

    @property
    def goes_on(self) -> bool:
        """Whether there are more to see."""
        return self.seen < self.tokens

    def note(self, seconds: float, weights: Weights) -> None:
        """Score the drafter if it is time to."""
        if not self.goes_on or self.seen >= self._every * len(self.points):
            self.points.append(Point(seconds=seconds, tokens=self.seen, accept_length=self._score(weights)))


class Way(Protocol):
    """A way of learning together."""

    def __call__(self, members: Sequence[TrainingMember], journey: Journey) -> None:
        """Let the members see the journey's states."""
        ...


def between(way: Sequence[tuple[float, float]], place: float) -> float:
    """Return the accept length at a place, interpolated between two scores; beyond the ends the nearest one."""
    before = way[0]
    for after in way:
        if after[0] >= place:
            share = (place - before[0]) / (after[0] - before[0]) if after[0] > before[0] else 1.0
            return before[1] + share * (after[1] - before[1])
        before = after
    return before[1]
