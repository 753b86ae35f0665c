"""Reward curves made by hand: what is compared, and when a gap is more than chance."""

from collections.abc import Sequence

import pytest

from countdown.record import Side
from tlt_bench.curves.curve import Curve, compared


def curves(side: Side, *runs: Sequence[float]) -> list[Curve]:
    return [Curve(seed=seed, side=side, rewards=tuple(run), accept_length=2.0) for seed, run in enumerate(runs)]


def test_sides_that_differ_as_their_seeds_do_are_within_the_spread() -> None:
    found = compared([*curves("on", (0.4, 0.6), (0.5, 0.7)), *curves("off", (0.5, 0.6), (0.4, 0.8))])
    assert found["reward_gap"] == pytest.approx(0.55 - 0.575)
    assert found["within_spread"] == 1.0


def test_a_side_that_learns_worse_on_every_seed_is_not() -> None:
    found = compared([*curves("on", (0.2, 0.2), (0.21, 0.21)), *curves("off", (0.5, 0.6), (0.5, 0.62))])
    assert found["reward_gap"] < -found["gap_limit"] < 0
    assert found["within_spread"] == 0.0
    assert (found["reward_last_on"], found["reward_last_off"]) == pytest.approx((0.205, 0.61))
