"""How fleets of trainers are compared with one trainer."""

import pytest

from tlt_bench.train.together.command import WAYS, _compared
from tlt_bench.train.together.way import Journey, Point


def point(seconds: float, tokens: int, accept_length: float) -> Point:
    return Point(seconds=seconds, tokens=tokens, accept_length=accept_length)


def test_a_fleet_is_compared_after_as_many_tokens_and_after_as_many_seconds() -> None:
    alone = [point(0.0, 0, 1.0), point(10.0, 1000, 3.0), point(20.0, 2000, 4.0)]
    fleet = [point(2.0, 500, 1.5), point(5.0, 2000, 3.0)]
    assert _compared(fleet, alone) == pytest.approx((0.75, 1.5))
    assert _compared([point(90.0, 9000, 4.0)], alone) == (1.0, 1.0)  # beyond the end


def test_a_journey_is_scored_at_the_first_merge_the_last_and_between() -> None:
    journey = Journey(1000, lambda _: 2.0, points=4)
    while journey.goes_on:
        journey.seen += 90
        journey.note(journey.seen / 100, {})
    assert [found.tokens for found in journey.points] == [90, 270, 540, 810, 1080]


def test_the_products_way_is_compared_with_three_others() -> None:
    assert next(iter(WAYS)) == ""
    assert len(WAYS) == 4
