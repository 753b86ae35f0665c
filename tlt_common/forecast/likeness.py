"""
How much alike the responses to one prompt are, in normal scores of their lengths; and what that tells of others.

A Gaussian copula: score = effect of the prompt + effect of this epoch of it + what is left to chance, with variances
that add up to 1, so that the distribution of all lengths stays as it was learned. The variances are learned by moments
from groups that are complete, as in an analysis of variance.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, sqrt

PRIOR_PAIRS = 64.0
"""Pairs of unlike responses that are assumed before the first are seen."""
KEPT_PAIRS = 16384.0
"""Pairs that are remembered at least half."""
MAX_LIKENESS = 0.9
POINTS = 15
"""Values that the effect of a group may take: quadrature over three and a half deviations to either side."""
REACH = 3.5


@dataclass(frozen=True, slots=True)
class PastEpoch:
    """The responses to a prompt in an earlier epoch."""

    mean_score: float
    count: int


class Likeness:
    """Correlations of scores, between responses of one epoch, and between epochs."""

    def __init__(self) -> None:
        self._siblings = [0.0, PRIOR_PAIRS]
        self._epochs = [0.0, PRIOR_PAIRS]
        """Sum of products of pairs, and their number."""

    @property
    def siblings(self) -> float:
        """Correlation of responses in one epoch of a prompt."""
        return min(MAX_LIKENESS, max(0.0, self._siblings[0] / self._siblings[1]))

    @property
    def epochs(self) -> float:
        """Correlation of responses in different epochs of a prompt; never above `siblings`."""
        return min(self.siblings, max(0.0, self._epochs[0] / self._epochs[1]))

    def learn(self, scores: Sequence[float], earlier: Sequence[PastEpoch]) -> None:
        """Learn from a complete group and the earlier epochs of its prompt."""
        total, count = sum(scores), len(scores)
        pairs = count * (count - 1) / 2.0
        _add(self._siblings, (total * total - sum(score * score for score in scores)) / 2.0, pairs)
        for epoch in earlier:
            pairs = float(count * epoch.count)
            _add(self._epochs, total * epoch.mean_score * epoch.count, pairs)

    def prior(self, earlier: Sequence[PastEpoch]) -> tuple[float, float]:
        """Return mean and variance of the effect of a group, given earlier epochs of its prompt."""
        of_prompt, of_epoch = self.epochs, self.siblings - self.epochs
        if of_prompt <= 0.0:
            return 0.0, self.siblings
        precision, pull = 1.0 / of_prompt, 0.0
        for epoch in earlier:
            noise = of_epoch + (1.0 - self.siblings) / epoch.count
            precision += 1.0 / noise
            pull += epoch.mean_score / noise
        return pull / precision, 1.0 / precision + of_epoch

    @property
    def effects(self) -> tuple[float, ...]:
        """The values that the effect of a group may take."""
        reach = REACH * sqrt(max(self.siblings, 1e-6))
        return tuple(reach * (2.0 * point / (POINTS - 1) - 1.0) for point in range(POINTS))

    def weights(self, scores: Sequence[float], earlier: Sequence[PastEpoch]) -> list[float]:
        """
        Return the probability of each of `effects`, up to a factor, given the scores of siblings that have ended.

        Those that still run, and those that were ended by a cap, remain to be multiplied in.
        """
        mean, variance = self.prior(earlier)
        variance, noise = max(variance, 1e-6), 1.0 - self.siblings
        exponents = [
            -((effect - mean) ** 2) / (2.0 * variance)
            - (len(scores) * effect * effect - 2.0 * effect * sum(scores)) / (2.0 * noise)
            for effect in self.effects
        ]
        highest = max(exponents)
        return [exp(exponent - highest) for exponent in exponents]


def _add(sums: list[float], products: float, pairs: float) -> None:
    sums[0] += products
    sums[1] += pairs
    if sums[1] > KEPT_PAIRS:
        sums[0] /= 2.0
        sums[1] /= 2.0
