"""What a bandit keeps over new drafters, new weights and the fleet's experience."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.tlt_common.bandit.playing import FREE, LONG, PATIENT, SHORT, play, posterior
from tlt_common.bandit import (
    TRIAL_ROUNDS,
    Bandit,
)
from tlt_common.domain.arm import DEFAULT_ARMS, OFF, ngram
from tlt_common.domain.ids import DrafterVersion
from tlt_common.domain.tuner import Posterior

NOTHING = Posterior(drafter_version=DrafterVersion(1), arms=())


@given(st.permutations(range(6)), st.integers(1, 3))
def test_what_the_fleet_knows_is_taken_the_same_in_any_order_and_as_often_as_it_comes(
    order: list[int], times: int
) -> None:
    known = posterior({OFF: 10.0, SHORT: 30.0, LONG: 20.0}, group=1).arms
    known += posterior({OFF: 10.0, SHORT: 20.0, LONG: 30.0}, group=4).arms
    bandit = Bandit(DEFAULT_ARMS, PATIENT, seed=0)
    for _ in range(times):
        bandit.merge(Posterior(drafter_version=DrafterVersion(1), arms=tuple(known[place] for place in order)))
    assert (bandit.choose(1), bandit.choose(4)) == (SHORT, LONG)


def test_with_another_drafter_every_learned_arm_is_unknown_again() -> None:
    bandit = Bandit([LONG, ngram(4)], FREE, seed=0)
    play(bandit, {OFF: 3.0, LONG: 1.0, ngram(4): 2.0}, batch=1, rounds=200)
    bandit.drafter_changed()
    assert play(bandit, {OFF: 3.0, LONG: 1.0, ngram(4): 2.0}, batch=1, rounds=4)[: TRIAL_ROUNDS + 1] == [LONG] * 3 + [
        OFF
    ]


@pytest.mark.parametrize("pushed", [False, True], ids=["alone", "after an empty push of the tuner"])
def test_a_verified_chain_tells_what_a_shorter_one_keeps(*, pushed: bool) -> None:
    bandit = Bandit(DEFAULT_ARMS, PATIENT, seed=0)
    play(bandit, dict.fromkeys(DEFAULT_ARMS, 1.0), batch=1, rounds=9)
    bandit.drafter_changed()
    if pushed:  # it leaves the round times that were kept over another drafter
        bandit.merge(NOTHING)
    for _ in range(TRIAL_ROUNDS):  # now the drafter is right once, and time is what it was
        bandit.record(LONG, 1, [1], elapsed_s=8.0)
    assert bandit.choose(1) == OFF  # 1 in 1 s; the short chain would bring 2 in 4 s


def test_with_another_drafter_the_drafting_arms_are_tried_again_and_nothing_old_is_reported() -> None:
    bandit = Bandit(DEFAULT_ARMS, FREE, seed=0)
    play(bandit, {OFF: 2.0, SHORT: 1.0, LONG: 0.5}, batch=1, rounds=200)
    bandit.drafter_changed()
    assert bandit.windows() == ()
    tried = play(bandit, {OFF: 2.0, SHORT: 3.0, LONG: 4.0}, batch=1, rounds=20)
    assert set(tried) == {SHORT, LONG}
    assert tried[-1] == LONG


def test_after_a_poor_drafter_the_next_one_waits_until_its_trial_is_affordable() -> None:
    bandit = Bandit(DEFAULT_ARMS, PATIENT, seed=0)
    play(bandit, {OFF: 2.0, SHORT: 0.5, LONG: 0.25}, batch=1, rounds=20)
    bandit.drafter_changed()
    tried = play(bandit, {OFF: 2.0, SHORT: 3.0, LONG: 4.0}, batch=1, rounds=20_000)
    assert set(tried[:100]) == {OFF}
    assert tried[-1] == LONG


def test_after_a_good_drafter_the_next_one_is_tried_at_once() -> None:
    bandit = Bandit(DEFAULT_ARMS, PATIENT, seed=0)
    play(bandit, {OFF: 2.0, SHORT: 3.0, LONG: 4.0}, batch=1, rounds=20)
    bandit.drafter_changed()
    assert play(bandit, {OFF: 2.0, SHORT: 1.0, LONG: 1.0}, batch=1, rounds=3) == [LONG] * 3


def test_a_trial_that_is_too_dear_keeps_no_other_from_its_own() -> None:
    bandit = Bandit(DEFAULT_ARMS, PATIENT, seed=0)
    speed = {OFF: 2.0, SHORT: 3.0, LONG: 0.5}
    play(bandit, speed, batch=1, rounds=20)
    play(bandit, speed, batch=4, rounds=20)
    bandit.record(LONG, 4, [7] * 4, elapsed_s=64.0)
    bandit.record(LONG, 4, [7] * 4, elapsed_s=64.0)
    bandit.record(LONG, 4, [7] * 4, elapsed_s=64.0)
    bandit.drafter_changed()
    assert play(bandit, speed, batch=4, rounds=TRIAL_ROUNDS) == [SHORT] * TRIAL_ROUNDS


def test_another_drafter_changes_nothing_for_arms_that_do_not_use_it() -> None:
    bandit = Bandit([OFF, ngram(4)], PATIENT, seed=0)
    play(bandit, {OFF: 1.0, ngram(4): 2.0}, batch=1, rounds=20)
    bandit.drafter_changed()
    assert bandit.choose(1) == ngram(4)


def test_with_other_weights_the_best_arm_goes_on_until_it_no_longer_is() -> None:
    bandit = Bandit(DEFAULT_ARMS, PATIENT, seed=0)
    play(bandit, {OFF: 1.0, SHORT: 2.0, LONG: 3.0}, batch=1, rounds=20)
    bandit.policy_changed()
    assert bandit.windows() == ()
    tried = play(bandit, {OFF: 1.0, SHORT: 2.0, LONG: 0.5}, batch=1, rounds=20)
    assert tried[0] == LONG
    assert tried[-1] == SHORT


def test_the_fleets_experience_spares_the_trials() -> None:
    bandit = Bandit(DEFAULT_ARMS, PATIENT, seed=0)
    bandit.merge(posterior({OFF: 1.0, SHORT: 3.0, LONG: 2.0}, group=4))
    assert bandit.choose(5) == SHORT


def test_own_experience_outweighs_the_fleets() -> None:
    bandit = Bandit(DEFAULT_ARMS, PATIENT, seed=0)
    bandit.merge(posterior({OFF: 10.0, SHORT: 30.0, LONG: 20.0}, group=1))
    assert play(bandit, {OFF: 10.0, SHORT: 1.0, LONG: 20.0}, batch=1, rounds=20)[-1] == LONG


def test_round_times_that_the_fleet_told_outlast_a_drafter_too() -> None:
    bandit = Bandit(DEFAULT_ARMS, PATIENT, seed=0)
    bandit.merge(posterior({OFF: 1.0, SHORT: 0.25, LONG: 0.125}, group=1))  # 1, 4 and 8 s
    bandit.drafter_changed()
    bandit.merge(posterior({OFF: 1.0}, group=1))
    for _ in range(TRIAL_ROUNDS):
        bandit.record(LONG, 1, [1], elapsed_s=8.0)
    assert bandit.choose(1) == OFF


@pytest.mark.parametrize("pushed", [NOTHING, posterior({OFF: 5.0, SHORT: 1.0, LONG: 1.0}, group=1)])
def test_a_push_of_the_tuner_leaves_what_was_kept_over_new_weights(pushed: Posterior) -> None:
    bandit = Bandit(DEFAULT_ARMS, PATIENT, seed=0)
    play(bandit, {OFF: 1.0, SHORT: 2.0, LONG: 3.0}, batch=1, rounds=20)
    bandit.policy_changed()
    bandit.merge(pushed)
    assert bandit.choose(1) == LONG
