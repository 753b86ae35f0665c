"""Figures from repeats."""

import random
from statistics import median

import pytest

from tlt_bench.ratios import Figures, best, interval, over, overlap, worst


def test_a_figure_is_the_median_of_its_repeats() -> None:
    found = Figures()
    assert found.add("speed", [1.0, 3.0, 2.0], "why") == 2.0
    assert (found.figures["speed"], found.spread["speed"], found.notes["speed"]) == (2.0, (1.0, 3.0), "why")


def test_repeats_are_compared_with_those_beside_them() -> None:
    assert over([2.0, 9.0], [1.0, 3.0]) == [2.0, 3.0]
    with pytest.raises(ValueError, match="shorter"):
        over([1.0, 2.0], [1.0])


def test_few_repeats_say_no_more_than_their_range() -> None:
    assert interval([3.0, 1.0, 2.0]) == (1.0, 3.0)
    assert interval([1.0]) == (1.0, 1.0)


def test_the_interval_holds_the_median_as_often_as_it_says() -> None:
    rng, held = random.Random(1), 0
    for _ in range(2000):
        low, high = interval([rng.gauss(0.0, 1.0) for _ in range(16)])
        held += low <= 0.0 <= high
    assert 0.95 <= held / 2000 <= 0.99


def test_more_repeats_narrow_the_interval() -> None:
    rng = random.Random(2)
    values = [rng.gauss(1.0, 0.1) for _ in range(64)]
    few, many = interval(values[:8]), interval(values)
    assert many[1] - many[0] < few[1] - few[0]
    assert many[0] <= median(values) <= many[1]


def test_intervals_that_touch_overlap() -> None:
    assert overlap((1.0, 2.0), (2.0, 3.0))
    assert not overlap((1.0, 2.0), (2.1, 3.0))


def test_sides_are_ranked_by_their_median() -> None:
    rates = {"a": [1.0, 9.0, 1.0], "b": [2.0, 2.0, 2.0]}
    assert (best(rates), worst(rates)) == ("b", "a")
