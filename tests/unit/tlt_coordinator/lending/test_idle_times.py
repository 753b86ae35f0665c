"""After how long a worker is lent is measured: how long workers stay free, and what a lease costs."""

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tlt_common.domain.fleet import WorkerState
from tlt_common.domain.ids import WorkerId
from tlt_coordinator.lending.idle_times import AGES_S, KEPT, LEAST, IdleTimes

W0 = WorkerId("w0")


def lived(*free_s: float, switch_s: float = 0.25) -> IdleTimes:
    """Return what is known of a worker that was free for these times and lent in each."""
    times, now_s = IdleTimes(), 1000.0
    for seconds in free_s:
        times.note(W0, WorkerState.IDLE, now_s)
        times.note(W0, WorkerState.SWITCHING, now_s)
        times.note(W0, WorkerState.TRAINING, now_s + switch_s)
        times.note(W0, WorkerState.ROLLOUT, now_s + seconds)
        now_s += seconds + 1.0
    return times


def test_nothing_is_said_of_a_fleet_that_is_not_known() -> None:
    times = lived(*[5.0] * (LEAST - 1))
    assert times.settle_s(0.0) is None
    assert times.cost_s() is None
    assert times.left_s(0.0) is None


def test_workers_that_stay_free_for_long_are_lent_at_once() -> None:
    times = lived(*[10.0] * LEAST)
    assert times.cost_s() == pytest.approx(0.5)
    assert times.settle_s(0.0) == 0.0
    assert times.left_s(4.0) == pytest.approx(6.0)


def test_workers_that_are_needed_again_soon_are_lent_only_once_they_are_not() -> None:
    """Turns of agents, 0.3 s apart, and now and then a tail of 20 s."""
    times = lived(*[0.28] * 120, 20.0)
    assert times.settle_s(0.0) == 0.3


def test_workers_that_never_stay_free_for_longer_than_a_lease_costs_are_not_lent() -> None:
    assert lived(*[0.4] * 40).settle_s(0.0) == inf


def test_a_lost_worker_says_nothing_of_how_long_it_would_have_been_free() -> None:
    times = lived(*[10.0] * LEAST)
    times.note(W0, WorkerState.IDLE, 5000.0)
    times.note(W0, WorkerState.DOWN, 5001.0)
    assert times.left_s(0.0) == pytest.approx(10.0)


@given(st.lists(st.integers(0, 400).map(lambda quarters: quarters / 4.0), min_size=LEAST, max_size=200))
def test_the_mean_of_what_is_left_is_that_of_the_longer_ones(free_s: list[float]) -> None:
    times = lived(*free_s)
    for age_s in AGES_S:
        longer = [seconds - age_s for seconds in free_s if seconds > age_s]
        left_s = times.left_s(age_s)
        if left_s is not None and len(longer) >= LEAST:
            assert left_s == pytest.approx(sum(longer) / len(longer), abs=1e-3)


def test_only_the_last_times_are_kept() -> None:
    times = lived(*[100.0] * KEPT, *[10.0] * KEPT)
    assert times.left_s(0.0) == pytest.approx(10.0)
