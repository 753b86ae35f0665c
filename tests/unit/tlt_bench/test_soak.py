"""Slopes of memory."""

import random

import pytest

from tlt_bench.soak.slope import slope_of


def course(slope: float, *, noise: float, count: int = 400) -> list[tuple[float, float]]:
    chance = random.Random(7)
    return [(1000.0 * place, 90.0 + slope * place / 1000 + chance.gauss(0.0, noise)) for place in range(count)]


@pytest.mark.parametrize("slope", [0.0, 5.0, 40.0])
def test_a_slope_is_found_within_its_interval(slope: float) -> None:
    found = slope_of(course(slope, noise=0.5), per=1e6)
    assert found.low <= slope <= found.high
    assert found.is_noise is (slope == 0.0)


def test_without_noise_there_is_no_doubt() -> None:
    found = slope_of(course(5.0, noise=0.0), per=1e6)
    assert (found.mib, found.low, found.high) == pytest.approx((5.0, 5.0, 5.0))
