"""Draws from many intervals together."""

import pytest

from tlt_simulator.costs.uncertainty import hypercube, range_of


def test_a_hypercube_has_one_draw_in_each_part() -> None:
    draws = list(hypercube([lambda share: share, lambda share: 2 * share], 10, 0))
    for column, scale in zip(zip(*draws, strict=True), (1, 2), strict=True):
        assert sorted(int(10 * value / scale) for value in column) == list(range(10))
    assert draws == list(hypercube([lambda share: share, lambda share: 2 * share], 10, 0))
    assert draws != list(hypercube([lambda share: share, lambda share: 2 * share], 10, 1))


def test_a_range_holds_nine_tenths() -> None:
    found = range_of([float(value) for value in range(101)])
    assert (found.low, found.middle, found.high) == pytest.approx((5.0, 50.0, 95.0))
