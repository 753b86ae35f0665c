"""
Goodness of fit of samples to a distribution, or to each other. Pure.

Counts and masses are vectors over C cells (numbered responses). Cells expected too rarely for chi-square are pooled.

Pearson's statistic follows chi-square in its middle, not in its tail: with 6 responses expected in a cell, 17 are 25
times as likely as chi-square has it. Among hundreds of comparisons that is a false alarm, so small p values are
simulated.
"""

from collections.abc import Callable
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
SIMULATED = (1e-12, 1e-3)
"""Chi-square's p values that are replaced by simulated ones; below, no simulation would find one."""
SIMULATIONS, AT_ONCE = 1_000_000, 50_000

Draw = Callable[[np.random.Generator, int], npt.NDArray[np.float64]]
"""Draws so many statistics of equal distributions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """Pearson's statistic of one comparison, and its distance along with the distance expected by chance."""

    samples: int
    statistic: float
    freedom: int
    """Degrees of freedom of `statistic`; 0 if all mass is in one cell."""
    p_value: float
    """Probability of a statistic at least as large for equal distributions."""
    distance: float
    """Total variation over the pooled cells."""
    expected_distance: float
    """Mean of `distance` for equal distributions."""


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
    freedom = int(filled.sum()) - 1

    def pearson(found_NC: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        return np.asarray(((found_NC - expected[filled]) ** 2 / expected[filled]).sum(-1), dtype=np.float64)

    def draw(chance: np.random.Generator, times: int) -> npt.NDArray[np.float64]:
        return pearson(chance.multinomial(samples, masses[filled] / masses[filled].sum(), size=times))

    statistic = float("inf") if impossible else float(pearson(found[filled]))
    return Fit(
        samples=samples,
        statistic=statistic,
        freedom=freedom,
        p_value=_p_value(statistic, freedom, draw),
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

    def pearson(mine_NC: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        return np.asarray(((mine_NC - expected) ** 2 * (1 / expected + 1 / rest)).sum(-1), dtype=np.float64)

    def draw(chance: np.random.Generator, times: int) -> npt.NDArray[np.float64]:
        return pearson(chance.multivariate_hypergeometric(both, ours, size=times, method="marginals"))

    statistic = float(pearson(mine))
    return Fit(
        samples=ours,
        statistic=statistic,
        freedom=len(both) - 1,
        p_value=_p_value(statistic, len(both) - 1, draw),
        distance=float(np.abs(mine / ours - (both - mine) / theirs).sum() / 2),
        expected_distance=float(by_chance.mean()),
    )


def combined(fits: list[Fit]) -> Fit:
    """Combine independent comparisons by Fisher's method; distances are averaged over samples."""
    samples = sum(each.samples for each in fits)
    compared = [each.p_value for each in fits if each.freedom]
    possible = all(each.p_value > 0.0 for each in fits)
    statistic = -2.0 * float(np.log(compared).sum()) if possible else float("inf")
    return Fit(
        samples=samples,
        statistic=statistic,
        freedom=2 * len(compared),
        p_value=_chi_square(statistic, 2 * len(compared)),
        distance=sum(each.distance * each.samples for each in fits) / samples,
        expected_distance=sum(each.expected_distance * each.samples for each in fits) / samples,
    )


def _p_value(statistic: float, freedom: int, draw: Draw) -> float:
    p_value = _chi_square(statistic, freedom)
    if not SIMULATED[0] < p_value < SIMULATED[1]:
        return p_value
    chance = np.random.default_rng(0)
    # Sums in another order differ in their last digits.
    found = sum(int((draw(chance, AT_ONCE) >= statistic * (1 - 1e-9)).sum()) for _ in range(SIMULATIONS // AT_ONCE))
    return (found + 1) / (SIMULATIONS + 1)


def _chi_square(statistic: float, freedom: int) -> float:
    if freedom == 0:
        return 1.0 if statistic == 0.0 else 0.0
    return float(chi2.sf(statistic, freedom))


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
