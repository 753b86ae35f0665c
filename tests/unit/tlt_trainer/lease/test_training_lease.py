"""Whose epoch counts, and until when."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tlt_common.domain.ids import Epoch
from tlt_common.errors import StaleEpochError
from tlt_trainer.lease.training_lease import LeaseState


def test_a_lease_holds_until_it_runs_out_and_a_repeat_extends_it() -> None:
    lease = LeaseState().started(Epoch(1), 5.0, 10.0)
    assert lease.holds(14.9)
    assert not lease.holds(15.0)
    assert lease.started(Epoch(1), 5.0, 14.0).holds(18.9)
    assert lease.started(Epoch(1), 5.0, 20.0).holds(24.9)


def test_a_lease_that_was_taken_back_does_not_come_back() -> None:
    lease = LeaseState().started(Epoch(3), 5.0, 0.0).preempted(Epoch(3))
    assert not lease.holds(0.1)
    with pytest.raises(StaleEpochError, match="accepted: above 3"):
        lease.started(Epoch(3), 5.0, 1.0)
    assert lease.started(Epoch(4), 5.0, 1.0).holds(2.0)


def test_a_late_preempt_does_not_end_a_newer_lease() -> None:
    lease = LeaseState().started(Epoch(4), 5.0, 0.0)
    with pytest.raises(StaleEpochError):
        lease.preempted(Epoch(3))
    assert lease.holds(1.0)


def test_a_preempt_that_overtook_its_start_wins() -> None:
    with pytest.raises(StaleEpochError):
        LeaseState().preempted(Epoch(2)).started(Epoch(2), 5.0, 0.0)


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 6))))
def test_epochs_never_go_back_and_an_ended_one_never_holds(calls: list[tuple[bool, int]]) -> None:
    lease, ended = LeaseState(), set[int]()
    for is_start, number in calls:
        before = lease
        try:
            lease = lease.started(Epoch(number), 1.0, 0.0) if is_start else lease.preempted(Epoch(number))
        except StaleEpochError:
            continue
        if not is_start:
            ended.add(number)
        assert lease.epoch >= before.epoch
        assert not (lease.holds(0.5) and lease.epoch in ended)
