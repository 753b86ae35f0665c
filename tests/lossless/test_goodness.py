"""The statistics flag different distributions and pass equal ones."""

import numpy as np
import pytest
from scipy.stats import binom, chi2, hypergeom

from tests.lossless import goodness

MASSES = np.array([0.4, 0.3, 0.2, 0.07, 0.02, 0.006, 0.003, 0.001])


def drawn(masses: np.ndarray[tuple[int], np.dtype[np.float64]], samples: int, seed: int) -> goodness.Counts:
    return np.random.default_rng(seed).multinomial(samples, masses).astype(np.int64)


def test_answers_are_counted_by_their_tokens() -> None:
    counts = goodness.count(np.array([[0, 1], [2, 1], [2, 1]]), 3)
    assert counts.tolist() == [0, 1, 0, 0, 0, 0, 0, 2, 0]


def test_p_values_of_right_samples_are_uniform() -> None:
    p_values = np.array([goodness.fit(drawn(MASSES, 2000, seed), MASSES).p_value for seed in range(400)])
    assert 0.45 < p_values.mean() < 0.55
    assert 0.02 < (p_values < 0.05).mean() < 0.08


def test_p_values_of_two_equal_sources_are_uniform() -> None:
    p_values = np.array(
        [goodness.compare(drawn(MASSES, 2000, seed), drawn(MASSES, 1000, 9000 + seed)).p_value for seed in range(400)]
    )
    assert 0.45 < p_values.mean() < 0.55
    assert 0.02 < (p_values < 0.05).mean() < 0.08


def test_a_small_shift_is_flagged() -> None:
    shifted = MASSES + np.array([0.03, -0.03, 0, 0, 0, 0, 0, 0])
    assert goodness.fit(drawn(shifted, 20_000, 1), MASSES).p_value < 1e-6
    assert goodness.compare(drawn(shifted, 40_000, 1), drawn(MASSES, 40_000, 2)).p_value < 1e-6


def test_a_sample_without_mass_is_never_right() -> None:
    masses = np.array([0.5, 0.5, 0.0])
    assert goodness.fit(np.array([500, 499, 1]), masses).p_value == 0.0
    assert goodness.fit(np.array([500, 500, 0]), masses).p_value == 1.0


def test_one_cell_holds_all_mass() -> None:
    assert goodness.fit(np.array([0, 100]), np.array([0.0, 1.0])).p_value == 1.0
    assert goodness.compare(np.array([0, 100]), np.array([0, 70])).p_value == 1.0


def test_distances_average_to_what_equality_makes_of_them() -> None:
    alone = [goodness.fit(drawn(MASSES, 1500, seed), MASSES) for seed in range(300)]
    assert np.mean([f.distance for f in alone]) == pytest.approx(alone[0].expected_distance, rel=0.05)
    pairs = [goodness.compare(drawn(MASSES, 1500, seed), drawn(MASSES, 700, 9000 + seed), seed) for seed in range(300)]
    expected = np.mean([f.expected_distance for f in pairs])
    assert np.mean([f.distance for f in pairs]) == pytest.approx(expected, rel=0.05)


def test_small_p_values_are_exact_where_chi_square_is_not() -> None:
    """One cell is expected six times, the rest is elsewhere: P(X >= 17) of a binomial distribution."""
    masses = np.array([6 / 800, 794 / 800])
    fit = goodness.fit(np.array([17, 783]), masses)
    assert chi2.sf(fit.statistic, fit.freedom) < 1e-5
    assert fit.p_value == pytest.approx(binom.sf(16, 800, 6 / 800), rel=0.3)


def test_small_p_values_of_two_samples_are_exact_too() -> None:
    fit = goodness.compare(np.array([25, 775]), np.array([3, 797]))
    both = hypergeom(1600, 28, 800)
    assert fit.p_value == pytest.approx(both.sf(24) + both.cdf(3), rel=0.3)


def test_comparisons_add_up() -> None:
    fits = [goodness.fit(drawn(MASSES, 1000, seed), MASSES) for seed in range(10)]
    whole = goodness.combined(fits)
    assert whole.samples == 10_000
    assert whole.freedom == 2 * len(fits)
    assert whole.p_value > 1e-4
    shifted = [goodness.fit(drawn(MASSES * 0.98 + 0.02 / 8, 1000, seed), MASSES) for seed in range(10)]
    assert goodness.combined(shifted).p_value < min(each.p_value for each in shifted)
    impossible = goodness.fit(np.array([500, 499, 1]), np.array([0.5, 0.5, 0.0]))
    assert goodness.combined([*fits, impossible]).p_value == 0.0


def test_p_values_of_combinations_are_uniform() -> None:
    p_values = np.array(
        [
            goodness.combined(
                [goodness.fit(drawn(MASSES, 2000, seed), MASSES) for seed in range(8 * n, 8 * n + 8)]
            ).p_value
            for n in range(200)
        ]
    )
    assert 0.44 < p_values.mean() < 0.56
