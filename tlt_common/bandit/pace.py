"""
Pace of the machine, apart from the costs of arms.

Rounds of all arms slow down and speed up together: with the tokens in the KV cache, with clocks that depend on heat and
power, with other programs. On a shared CPU they doubled within seconds. An arm that ran in a slow minute would look
expensive in a fast one until its window has passed, so rounds are compared with recent rounds of other arms.
"""

from collections import deque
from statistics import median
from typing import Final

RECENT_ROUNDS: Final = 8
"""Rounds of other arms that a round is compared with, at most this long ago: two choices of an arm."""

NOW_ROUNDS: Final = 5
"""Rounds whose median is the pace: one pause, or two, do not change it."""

CHANGED: Final = 1.4
"""
Factor by which a time or the pace must differ to count as changed, and not as noise.

Rounds of one arm differ by 10 % from each other on an idle machine, and by 50 to 130 % from those of another minute on
a shared one.
"""


class MachinePace:
    """Ratio of the times of recent rounds to the known times of their arms. The first rounds of all define 1."""

    def __init__(self) -> None:
        self._ratios: deque[tuple[object, float]] = deque(maxlen=RECENT_ROUNDS)
        self._compared = 1.0

    def ran(self, arm: object, ratio: float) -> None:
        """Record a round of an arm that took `ratio` times its known time."""
        self._ratios.append((arm, ratio))

    @property
    def now(self) -> float:
        """Pace of recent rounds."""
        last = [ratio for _, ratio in self._ratios][-NOW_ROUNDS:]
        return median(last) if last else 1.0

    def beside(self, arm: object) -> float | None:
        """Return the pace from recent rounds of other arms, or None if there are too few."""
        others = [ratio for other, ratio in self._ratios if other is not arm]
        return median(others) if len(others) > 1 else None

    def compare(self) -> None:
        """Record that the rounds of two arms were compared at the current pace."""
        self._compared = self.now

    @property
    def is_doubtful(self) -> bool:
        """Whether the pace changed so much since arms were compared that the arm itself may be the cause."""
        return differs(self.now, self._compared)


def differs(value: float, other: float) -> bool:
    """Return whether two values differ by more than the factor `CHANGED`."""
    return value > CHANGED * other or other > CHANGED * value
