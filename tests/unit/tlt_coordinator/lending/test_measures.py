"""What operators set holds; what they leave open is measured."""

from dataclasses import replace
from math import inf

import pytest

from tlt_common.domain.fleet import WorkerState, WorkerStatus
from tlt_common.domain.ids import Epoch, WorkerId
from tlt_coordinator.config import LendingPolicy
from tlt_coordinator.lending.idle_times import LEAST
from tlt_coordinator.lending.measures import LOADING_SHARE, UNKNOWN_SETTLE_S, Measures

W0 = WorkerId("w0")
TRAINING = WorkerStatus(state=WorkerState.TRAINING, epoch=Epoch(3), training_gain=0.02)
ROLLOUT = WorkerStatus(state=WorkerState.ROLLOUT)
OPEN = LendingPolicy()


def measured(*, free_s: float = 10.0) -> Measures:
    found = Measures()
    for number in range(LEAST):
        began_s = 100.0 * number
        found.note(W0, replace(TRAINING, state=WorkerState.SWITCHING), began_s)
        found.note(W0, TRAINING, began_s + 0.2)
        found.note(W0, ROLLOUT, began_s + free_s)
    found.note(W0, TRAINING, 100.0 * LEAST)
    return found


def test_what_operators_set_holds() -> None:
    policy = LendingPolicy(settle_s=7.0, max_trainers=3)
    assert measured().settle_s(policy, 0.0) == 7.0
    assert measured().trainers(policy, 0.0) == 3
    assert measured().surplus(5, policy, 0.0) == 2


def test_without_measurements_all_free_workers_are_lent_soon() -> None:
    assert Measures().settle_s(OPEN, 0.0) == UNKNOWN_SETTLE_S
    assert Measures().trainers(OPEN, 0.0) == inf
    assert Measures().surplus(99, OPEN, 0.0) == 0


def test_leases_end_only_if_far_more_workers_train_than_pay() -> None:
    found = measured()
    assert found.settle_s(OPEN, 0.0) == 0.0
    assert found.trainers(OPEN, 0.0) == 1
    assert [found.surplus(loans, OPEN, 0.0) for loans in (1, 2, 3, 8)] == [0, 0, 2, 7]


def test_workers_that_are_never_free_for_long_enough_are_not_lent() -> None:
    assert measured(free_s=0.3).settle_s(OPEN, 0.0) == inf


def test_engines_load_drafters_for_a_small_share_of_their_time() -> None:
    found = Measures()
    assert found.publish_every_s == 0.0
    for pause_s in [0.4, 0.5] * 40:
        found.note(W0, replace(ROLLOUT, drafter_pause_s=pause_s), 0.0)
    assert found.publish_every_s == pytest.approx(0.45 / LOADING_SHARE, rel=0.2)
