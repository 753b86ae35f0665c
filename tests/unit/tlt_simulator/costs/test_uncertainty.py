"""Draws from many intervals together."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tlt_simulator.costs.figure import CostFigure, Source
from tlt_simulator.costs.uncertainty import drawn, hypercube, range_of, scaled_range


def test_a_hypercube_has_one_draw_in_each_part() -> None:
    draws = list(hypercube([lambda share: share, lambda share: 2 * share], 10, 0))
    for column, scale in zip(zip(*draws, strict=True), (1, 2), strict=True):
        assert sorted(int(10 * value / scale) for value in column) == list(range(10))
    assert draws == list(hypercube([lambda share: share, lambda share: 2 * share], 10, 0))
    assert draws != list(hypercube([lambda share: share, lambda share: 2 * share], 10, 1))


def test_a_range_holds_nine_tenths() -> None:
    found = range_of([float(value) for value in range(101)])
    assert (found.low, found.middle, found.high) == pytest.approx((5.0, 50.0, 95.0))


def test_an_interval_contains_its_result_where_chance_moves_unvaried_simulations_as_much() -> None:
    """Qwen3-30B-A3B on full caches: a thousandth more time for prefills moves the speedup on two steps by 4 %."""
    unvaried = [0.992, 1.003, 0.986, 0.956]
    found = scaled_range(0.966, [0.929, 0.942, 0.933, 0.961, 0.919, 0.984], unvaried=unvaried)
    assert found.low < 0.92
    assert 0.966 < found.high < 1.0
    certain = scaled_range(2.0, [1.9, 2.2, 2.4], unvaried=[2.1, 2.1])
    assert certain == range_of([2.0 * one / 2.1 for one in (1.9, 2.2, 2.4)])


@given(
    value=st.floats(1.0, 1e6),
    below=st.floats(0.01, 0.99),
    above=st.floats(1.1, 20.0),
    seed=st.integers(0, 100),
)
def test_draws_of_a_positive_interval_are_positive_and_keep_its_ends(
    value: float, below: float, above: float, seed: int
) -> None:
    figure = CostFigure(value=value, low=value * below, high=value * above, source=Source.ASSUMED)
    values = sorted(value for (value,) in drawn([("costs.learn_half_tokens", figure)], 200, seed))

    assert values[0] > 0.0
    share_below = sum(value < figure.least for value in values) / len(values)
    share_above = sum(value > figure.most for value in values) / len(values)
    assert share_below == pytest.approx(0.05, abs=0.01)
    assert share_above == pytest.approx(0.05, abs=0.01)
