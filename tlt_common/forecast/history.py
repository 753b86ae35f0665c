"""
How often responses end, by length: an actuarial life table over logarithmic buckets.

Responses that still run, were aborted or reached their cap count for as far as they were observed, so that the table
has no bias towards short ones, at any moment of a step, and needs no steps (Kaplan and Meier 1958, in buckets).
"""

from collections.abc import Iterable
from itertools import accumulate
from math import log2

from tlt_common.forecast.curve import BUCKETS, PER_OCTAVE, LengthCurve, place_of

KEPT_ENDS = 128.0
"""Ends of which a bucket remembers at least half: it follows a policy that changes, and is accurate to a tenth."""
KEPT_PASSES = 4096.0
"""The same in responses that passed through it, where few end."""
LEAST_ENDS = 32
"""Ends before anything is foretold."""
SMOOTH_ENDS = 12.0
"""Ends in the neighbourhood from which the rate of a bucket is taken."""
SMOOTH_PASSES = 48.0
"""Passes that do instead: where hardly any response ends that got there, its neighbours tell nothing of it."""
SMOOTH_BUCKETS = PER_OCTAVE
"""Buckets on each side that the neighbourhood may have: it spans a factor of 4."""
PRIOR_ENDS = 0.5
"""Weight of the rate that is assumed where nothing has been seen: one end per factor e of length, a Pareto tail."""
PRIOR_RATE = 1.0 / (PER_OCTAVE * log2(2.718281828459045))
"""That rate, per bucket."""


class LengthHistory:
    """Responses by length, the recent ones above all."""

    def __init__(self) -> None:
        self._ends = [0.0] * BUCKETS
        self._passes = [0.0] * BUCKETS
        """Buckets passed, by responses that were observed there; part of one counts as its part."""
        self.count = 0
        """Responses that ended by themselves, ever."""

    def add(self, length: int, *, begun: int = 0, ended: bool) -> None:
        """
        Add a response that is no longer observed.

        Args:
            length: Tokens.
            begun: Tokens that it had when it was first observed.
            ended: Whether it ended by itself there, not by a cap or an abort.
        """
        first, last = place_of(begun), place_of(length)
        low, high, passes = int(first), min(int(last), BUCKETS - 1), self._passes
        passes[low : high + 1] = passed = [count + 1.0 for count in passes[low : high + 1]]
        if max(passed, default=0.0) > KEPT_PASSES:
            for bucket in range(low, high + 1):
                if passes[bucket] > KEPT_PASSES:
                    self._forget(bucket)
        passes[low] -= first - low
        passes[high] -= high + 1.0 - last
        if ended:
            bucket = min(int(last), BUCKETS - 1)
            self._ends[bucket] += 1.0
            self.count += 1
            if self._ends[bucket] > KEPT_ENDS:
                self._forget(bucket)

    def curve(self, running: Iterable[tuple[int, int]] = ()) -> LengthCurve | None:
        """
        Return the distribution of lengths; None while too few are known.

        Args:
            running: What responses have generated that still run, and how many have generated as much.
        """
        if self.count < LEAST_ENDS:
            return None
        passes = list(self._passes)
        whole = [0.0] * (BUCKETS + 1)
        for generated, count in running:
            place = place_of(generated)
            bucket = min(int(place), BUCKETS - 1)
            whole[bucket] += count
            passes[bucket] += count * (place - bucket)
        beyond = list(accumulate(reversed(whole)))[::-1]
        for bucket in range(BUCKETS):
            passes[bucket] += beyond[bucket + 1]
        return LengthCurve([_rate(self._ends, passes, bucket) for bucket in range(BUCKETS)])

    def _forget(self, bucket: int) -> None:
        self._ends[bucket] /= 2.0
        self._passes[bucket] /= 2.0


def _rate(ends: list[float], passes: list[float], bucket: int) -> float:
    """Return the ends per bucket passed, of as small a neighbourhood as has enough of them."""
    found, over, radius = ends[bucket], passes[bucket], 0
    while found < SMOOTH_ENDS and over < SMOOTH_PASSES and radius < SMOOTH_BUCKETS:
        radius += 1
        for near in (bucket - radius, bucket + radius):
            if 0 <= near < BUCKETS:
                found, over = found + ends[near], over + passes[near]
    return (found + PRIOR_ENDS) / (over + PRIOR_ENDS / PRIOR_RATE)
