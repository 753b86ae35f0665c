"""Distributions of lengths, learned from whole and interrupted responses."""

import random
from itertools import pairwise
from math import exp

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tlt_common.forecast import LengthHistory
from tlt_common.forecast.curve import length_at, place_of

LENGTHS = st.lists(st.tuples(st.integers(0, 40_000), st.booleans()), min_size=40, max_size=200)


def history_of(lengths: list[tuple[int, bool]]) -> LengthHistory:
    history = LengthHistory()
    for length, ended in lengths:
        history.add(length, ended=ended)
    for length in range(100, 3300, 100):
        history.add(length, ended=True)
    return history


def test_nothing_is_foretold_from_too_few() -> None:
    history = LengthHistory()
    for length in range(1, 32):
        history.add(length, ended=True)
    assert history.curve() is None
    history.add(50, ended=True)
    assert history.curve() is not None


@given(LENGTHS)
def test_survival_falls_from_one_whatever_was_seen(lengths: list[tuple[int, bool]]) -> None:
    curve = history_of(lengths).curve()
    assert curve is not None
    shares = [curve.survival(length) for length in (0, 1, 2, 7, 100, 1000, 30_000, 10**6)]
    assert shares[0] == 1.0
    assert all(before >= after >= 0.0 for before, after in pairwise(shares))
    assert all(before <= after for before, after in pairwise(curve.scores))


@given(LENGTHS, st.floats(0.01, 0.99), st.floats(0.0, 5000.0))
def test_a_quantile_splits_those_that_got_beyond_a_length(
    lengths: list[tuple[int, bool]], level: float, beyond: float
) -> None:
    curve = history_of(lengths).curve()
    assert curve is not None
    if curve.survival(beyond) > 0.01:
        quantile = curve.quantile(level, beyond=beyond)
        assert curve.survival(quantile) / curve.survival(beyond) == pytest.approx(1.0 - level, abs=0.03)


@given(st.floats(0.0, 10**6))
def test_places_are_lengths(length: float) -> None:
    assert length_at(place_of(length)) == pytest.approx(length, rel=1e-6, abs=1e-6)


def exponential(count: int, mean: float) -> list[int]:
    chance = random.Random(1)
    return [round(chance.expovariate(1.0 / mean)) for _ in range(count)]


@pytest.mark.parametrize("cap", [300, 1000, 100_000])
def test_caps_hide_nothing_of_what_is_below_them(cap: int) -> None:
    history = LengthHistory()
    for length in exponential(4000, 500.0):
        history.add(min(length, cap), ended=length < cap)
    curve = history.curve()
    assert curve is not None
    for length in (50, 150, 290):
        assert curve.survival(length) == pytest.approx(exp(-length / 500.0), abs=0.04)


def test_in_the_middle_of_the_first_step_short_responses_do_not_count_for_all() -> None:
    lengths, now = exponential(4000, 500.0), 200
    history = LengthHistory()
    for length in lengths:
        if length <= now:
            history.add(length, ended=True)
    running = [(now, sum(length > now for length in lengths))]
    curve, biased = history.curve(running), history.curve()
    assert curve is not None
    assert biased is not None
    assert curve.survival(100) == pytest.approx(exp(-100 / 500.0), abs=0.04)
    assert biased.survival(100) < curve.survival(100) - 0.2


def test_a_response_that_continues_counts_only_for_what_was_observed() -> None:
    whole, parts = LengthHistory(), LengthHistory()
    for length in exponential(2000, 500.0):
        whole.add(length, ended=True)
        parts.add(length // 2, ended=False)
        parts.add(length, begun=length // 2, ended=True)
    expected, found = whole.curve(), parts.curve()
    assert expected is not None
    assert found is not None
    for length in (10, 100, 500, 1500):
        assert found.survival(length) == pytest.approx(expected.survival(length), abs=0.02)


def test_a_policy_whose_responses_get_longer_is_followed() -> None:
    history = LengthHistory()
    for length in (*exponential(20_000, 200.0), *exponential(20_000, 800.0)):
        history.add(length, ended=True)
    curve = history.curve()
    assert curve is not None
    assert curve.quantile(0.5) == pytest.approx(800.0 * 0.693, rel=0.15)
