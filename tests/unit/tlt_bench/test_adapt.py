"""A course counts what its learner computed, and says when it was how good."""

import pytest

from countdown.curriculum import SMALL
from tlt_bench.adapt.course import Course, CoursePoint, Recipe, seconds_to
from tlt_bench.adapt.data import Policy


def test_a_goal_is_reached_between_two_scores() -> None:
    way = [
        CoursePoint(seconds=at, accept_length=length)
        for at, length in ((0.0, 1.0), (4.0, 3.0), (6.0, 2.9), (10.0, 4.9))
    ]
    assert seconds_to(2.0, way) == pytest.approx(2.0)
    assert seconds_to(3.9, way) == pytest.approx(8.0)
    assert seconds_to(5.0, way) is None


def test_a_way_begins_with_nothing_and_ends_at_the_goal_or_at_the_limit() -> None:
    policy = Policy()
    frames, held_out = (policy.frames(SMALL, prompts=count, samples=1, seed=seed) for count, seed in ((24, 1), (4, 2)))
    course = Course(held_out, recipe=Recipe(passes=1))
    way = course.climb(frames, (1.0, 1.5), max_tokens=20_000)
    assert way[0].seconds == 0.0
    assert way[-1].seconds == course.seconds > 0.0
    assert way[-1].accept_length > way[0].accept_length
    seconds = course.seconds
    course.train(frames, seconds=0.2)
    assert course.seconds == pytest.approx(seconds + 0.2, abs=2.0)  # one micro-step more at most, however slow
    before = course.learner.counters.tokens
    course.train(frames, tokens=1_000)
    assert before + 1_000 <= course.learner.counters.tokens <= before + 2_000
    limited = Course(held_out)
    assert limited.climb(frames, (8.0,), max_tokens=1_000)[-1].accept_length < 8.0
    assert limited.learner.counters.tokens <= 7_000
