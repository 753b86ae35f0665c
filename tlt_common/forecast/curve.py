"""A distribution of lengths over logarithmic buckets."""

from bisect import bisect_left
from collections.abc import Iterable
from itertools import accumulate
from math import exp, log2
from statistics import NormalDist

PER_OCTAVE = 8
"""Buckets per factor of 2: one is 9 % long."""
BUCKETS = 22 * PER_OCTAVE
"""Up to four million tokens."""
MAX_SCORE = 4.0
NORMAL = NormalDist()


def place_of(length: float) -> float:
    """Return where a length is, in buckets."""
    return min(PER_OCTAVE * log2(length + 1.0), float(BUCKETS))


def length_at(place: float) -> float:
    """Return the length at a place: the inverse of `place_of`."""
    return float(2.0 ** (place / PER_OCTAVE)) - 1.0


class LengthCurve:
    """
    How long responses get, were there no caps.

    Args:
        rates: Ends per bucket passed, BUCKETS of them.
    """

    def __init__(self, rates: Iterable[float]) -> None:
        self._hazards = (0.0, *accumulate(rates))
        self.scores = tuple(self._score(hazard) for hazard in self._hazards)
        """Normal scores at the edges of the buckets, BUCKETS + 1 of them: where a share p is shorter, the p-quantile of
        a standard normal distribution."""

    def survival(self, length: float) -> float:
        """Return the share of responses that are longer."""
        return exp(-between(self._hazards, place_of(length)))

    def score(self, length: float) -> float:
        """Return the normal score of a length."""
        return between(self.scores, place_of(length))

    def quantile(self, level: float, *, beyond: float = 0.0) -> float:
        """Return the length below which the share `level` stays of the responses that are longer than `beyond`."""
        left = exp(-between(self._hazards, place_of(beyond))) * (1.0 - level)
        return length_at(place_reaching(self.scores, -NORMAL.inv_cdf(min(max(left, 1e-9), 1.0 - 1e-9))))

    @staticmethod
    def _score(hazard: float) -> float:
        left = exp(-hazard)
        if not 0.0 < left < 1.0:
            return MAX_SCORE if left <= 0.0 else -MAX_SCORE
        return max(-MAX_SCORE, min(MAX_SCORE, -NORMAL.inv_cdf(left)))


def between(values: tuple[float, ...], place: float) -> float:
    """Return the value at a place among those at edges, by interpolation."""
    low = min(int(place), len(values) - 2)
    part = place - low
    return values[low] * (1.0 - part) + values[low + 1] * part


def place_reaching(values: tuple[float, ...], value: float) -> float:
    """Return the first place at which rising values at edges reach a value; the last if they do not."""
    high = bisect_left(values, value)
    if high == 0:
        return 0.0
    if high == len(values):
        return float(len(values) - 1)
    low, rise = high - 1, values[high] - values[high - 1]
    return low + (value - values[low]) / rise if rise > 0.0 else float(high)
