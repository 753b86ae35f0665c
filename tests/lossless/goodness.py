"""
Goodness of fit of samples to a distribution, or to each other. Pure.

Counts and masses are vectors over C cells (numbered responses). Cells expected too rarely for chi-square are pooled.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import gammaln
from scipy.stats import chi2

Counts = npt.NDArray[np.int64]
Masses = npt.NDArray[np.float64]

MIN_EXPECTED = 5.0
"""Cells with a smaller expected count are pooled: the usual bound for Pearson's statistic to follow chi-square."""
PERMUTATIONS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """Pearson's statistic of one comparison, and its distance along with the distance expected by chance."""

    samples: int
    statistic: float
    freedom: int
    """Degrees of freedom of `statistic`; 0 if all mass is in one cell."""
    distance: float
    """Total variation over the pooled cells."""
    expected_distance: float
    """Mean of `distance` for equal distributions."""

    @property
    def p_value(self) -> float:
        """Probability of a statistic at least as large for equal distributions."""
        if self.freedom == 0:
            return 1.0 if self.statistic == 0.0 else 0.0
        return float(chi2.sf(self.statistic, self.freedom))


def count(answers_NL: npt.NDArray[np.integer], vocabulary: int) -> Counts:
    """Count N responses of L tokens in vocabulary ** L cells; the first token is the most significant digit."""
    digits = tuple(answers_NL.T.astype(np.int64))
    cells_N = np.ravel_multi_index(digits, (vocabulary,) * len(digits))
    return np.bincount(cells_N, minlength=vocabulary ** len(digits)).astype(np.int64)


def fit(counts_C: Counts, masses_C: Masses) -> Fit:
    """
    Compare samples with the distribution they should have.

    A sample in a cell without mass makes the statistic infinite.
    """
    samples = int(counts_C.sum())
    common_C = masses_C * samples >= MIN_EXPECTED
    found, masses = _pooled(counts_C, common_C), _pooled(masses_C, common_C)
    expected = masses * samples
    impossible = bool(counts_C[masses_C <= 0.0].any())
    filled = expected > 1e-9 * samples  # a remainder due to rounding only is not a cell
    statistic = float(((found - expected)[filled] ** 2 / expected[filled]).sum())
    return Fit(
        samples=samples,
        statistic=float("inf") if impossible else statistic,
        freedom=int(filled.sum()) - 1,
        distance=float(np.abs(found / samples - masses).sum() / 2),
        expected_distance=float(_mean_deviation(samples, masses).sum() / 2),
    )


def compare(ours_C: Counts, theirs_C: Counts, seed: int = 0) -> Fit:
    """Compare two samples with each other; the expected distance is that of random splits of their union."""
    ours, theirs = int(ours_C.sum()), int(theirs_C.sum())
    both_C = ours_C + theirs_C
    common_C = both_C * (min(ours, theirs) / (ours + theirs)) >= MIN_EXPECTED
    mine, both = _pooled(ours_C, common_C), _pooled(both_C, common_C)
    mine, both = mine[both > 0], both[both > 0]
    expected = both * (ours / (ours + theirs))
    rest = both * (theirs / (ours + theirs))
    divided = np.random.default_rng(seed).multivariate_hypergeometric(both, ours, size=PERMUTATIONS, method="marginals")
    by_chance = np.abs(divided / ours - (both - divided) / theirs).sum(-1) / 2
    return Fit(
        samples=ours,
        statistic=float(((mine - expected) ** 2 * (1 / expected + 1 / rest)).sum()),
        freedom=len(both) - 1,
        distance=float(np.abs(mine / ours - (both - mine) / theirs).sum() / 2),
        expected_distance=float(by_chance.mean()),
    )


def combined(fits: list[Fit]) -> Fit:
    """Combine independent comparisons: add statistics and degrees of freedom, average distances over samples."""
    samples = sum(each.samples for each in fits)
    return Fit(
        samples=samples,
        statistic=sum(each.statistic for each in fits),
        freedom=sum(each.freedom for each in fits),
        distance=sum(each.distance * each.samples for each in fits) / samples,
        expected_distance=sum(each.expected_distance * each.samples for each in fits) / samples,
    )


def _pooled(values_C: npt.NDArray[Any], common_C: npt.NDArray[np.bool_]) -> npt.NDArray[Any]:
    """Return the values of common cells, then the sum of all others."""
    return np.append(values_C[common_C], values_C[~common_C].sum())


def _mean_deviation(samples: int, masses_C: Masses) -> Masses:
    """Return E|X / n - p| of binomial counts X (De Moivre 1730): 2 (m / n) (1 - p) P(X = m), m = floor(np) + 1."""
    inner_C = np.clip(masses_C, 1e-300, 1 - 1e-15)
    m_C = np.minimum(np.floor(samples * inner_C) + 1, samples)
    log_C = (
        gammaln(samples + 1) - gammaln(m_C + 1) - gammaln(samples - m_C + 1)
        + m_C * np.log(inner_C) + (samples - m_C) * np.log1p(-inner_C)
    )  # fmt: skip
    return np.asarray(2 * (m_C / samples) * (1 - inner_C) * np.exp(log_C), dtype=np.float64)
