"""How many trainers pay."""

from dataclasses import replace
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tlt_common.domain.fleet import PAY_GAIN, WorkerState, WorkerStatus
from tlt_common.domain.ids import Epoch, WorkerId
from tlt_coordinator.lending.worth import TOGETHER, Worth

LENT = WorkerStatus(state=WorkerState.TRAINING, epoch=Epoch(3), training_gain=0.5)


def worth(*gains: float, passes: float = 0.0) -> Worth:
    found = Worth()
    for number, gain in enumerate(gains):
        found.note(WorkerId(f"w{number}"), replace(LENT, training_gain=gain, training_passes=passes))
    return found


def test_all_are_lent_as_long_as_nothing_is_known() -> None:
    assert Worth().trainers(10.0) == inf
    assert worth(0.5).trainers(None) == inf


@given(st.lists(st.floats(-1.0, 1.0), min_size=1, max_size=5), st.floats(0.0, 1e4), st.floats(0.0, 100.0))
def test_one_trainer_always_pays_and_the_last_one_gains_what_counts(
    gains: list[float], idle_s: float, passes: float
) -> None:
    found = worth(*gains, passes=passes)
    count = found.trainers(idle_s)
    assert 1 <= count < inf
    mean = sum(found.gain(WorkerId(f"w{number}")) for number in range(len(gains))) / len(gains)
    added = mean * TOGETHER * count ** (TOGETHER - 1) * idle_s
    assert count == 1 or added >= PAY_GAIN * 0.999


def test_early_in_a_run_more_trainers_pay_than_later() -> None:
    assert worth(0.5).trainers(10.0) > worth(0.05).trainers(10.0) > worth(0.01).trainers(10.0) == 1


def test_data_that_was_seen_often_is_worth_less() -> None:
    assert worth(0.5, passes=30.0).trainers(10.0) < worth(0.5).trainers(10.0)


def test_what_was_known_of_trainers_holds_after_their_leases() -> None:
    found = worth(0.05)
    before = found.trainers(10.0)
    found.note(WorkerId("w0"), replace(LENT, epoch=Epoch(0)))
    assert found.trainers(10.0) == before


def test_a_trainer_that_is_not_known_is_taken_back_last() -> None:
    found = worth(0.5, 0.1)
    order = sorted(map(WorkerId, ("w0", "w1", "w2")), key=found.gain)
    assert order == ["w1", "w0", "w2"]


@pytest.mark.parametrize("status", [None, replace(LENT, epoch=Epoch(0)), replace(LENT, training_gain=None)])
def test_those_without_a_lease_or_a_gain_do_not_count(status: WorkerStatus | None) -> None:
    found = worth(0.5)
    found.note(WorkerId("w0"), status)
    assert found.gain(WorkerId("w0")) == inf
