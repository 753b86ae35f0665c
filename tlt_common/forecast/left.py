"""What is left of a response, as quantiles; and when the last of several ends."""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import prod

LEVELS = (0.02, 0.1, 0.25, 0.5, 0.75, 0.9, 0.98)
"""Shares of the quantiles that describe a distribution; the middle one is the median."""
_ENDS = (0.0, *LEVELS, 1.0)


@dataclass(frozen=True, slots=True)
class Left:
    """Quantiles of the tokens that a running response has left, at LEVELS."""

    tokens: tuple[float, ...]

    @property
    def median(self) -> float:
        """Half of such responses have fewer tokens left."""
        return self.tokens[len(self.tokens) // 2]

    @property
    def mean(self) -> float:
        """Mean of the distribution that `at` draws from."""
        ends = self._ends
        return sum(
            (high - low) * (left + right) / 2.0
            for low, high, left, right in zip(_ENDS, _ENDS[1:], ends, ends[1:], strict=False)
        )

    def at(self, share: float) -> float:
        """Return the quantile of any share, by interpolation."""
        ends = self._ends
        high = max(1, min(bisect_left(_ENDS, share), len(_ENDS) - 1))
        part = (share - _ENDS[high - 1]) / (_ENDS[high] - _ENDS[high - 1])
        return ends[high - 1] + (ends[high] - ends[high - 1]) * part

    def share_below(self, tokens: float) -> float:
        """Return the probability that at most so many are left."""
        ends = self._ends
        if tokens >= ends[-1]:
            return 1.0
        if tokens < ends[0]:
            return 0.0
        high = max(1, next(place for place, end in enumerate(ends) if end > tokens))
        rise = ends[high] - ends[high - 1]
        part = (tokens - ends[high - 1]) / rise if rise > 0.0 else 1.0
        return _ENDS[high - 1] + (_ENDS[high] - _ENDS[high - 1]) * part

    @property
    def _ends(self) -> tuple[float, ...]:
        # Beyond the outer quantiles: down to half of the lowest, and up by as much as between the upper two, at most.
        return self.tokens[0] / 2.0, *self.tokens, self.tokens[-1] + (self.tokens[-1] - self.tokens[-2]) / 2.0


def last_end(ends: Sequence[Callable[[float], float]], *, level: float, within_s: float) -> float:
    """
    Return the time by which all have ended with probability `level`.

    Args:
        ends: For each independent group of responses, the probability that all of it has ended by a time, in seconds.
        level: Between 0 and 1.
        within_s: A time by which all have ended.
    """
    low, high = 0.0, within_s
    for _ in range(40):
        middle = (low + high) / 2.0
        if prod(_each(ends, middle)) < level:
            low = middle
        else:
            high = middle
    return high


def _each(ends: Iterable[Callable[[float], float]], time_s: float) -> Iterable[float]:
    return (end(time_s) for end in ends)
