"""A machine whose speed changes is not mistaken for arms that change."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.tlt_common.bandit.playing import LONG, SHORT, play
from tlt_common.bandit import Bandit, BanditConfig
from tlt_common.bandit.pace import MachinePace
from tlt_common.bandit.track import TIMES_WINDOW, RoundTimes
from tlt_common.domain.arm import DEFAULT_ARMS, OFF, Arm

SECONDS = {OFF: 0.1, SHORT: 0.19, LONG: 0.33}
CHANCE = 0.68


def accepted(random: Random, arm: Arm) -> int:
    return next((place for place in range(arm.steps) if random.random() > CHANCE), arm.steps)


def share_of_best(seed: int, rounds: int) -> float:
    """Decode on a machine whose speed changes every few seconds; return the speed as share of the best arm's."""
    bandit, random = Bandit(DEFAULT_ARMS, BanditConfig(), seed), Random(seed)
    tokens, elapsed_s, pace, left = 0, 0.0, 1.0, 0
    for _ in range(rounds):
        if left == 0:
            pace, left = random.choice((0.65, 0.8, 1.0, 1.5)), random.randint(15, 80)
        left -= 1
        arm = bandit.choose(8)
        kept = [accepted(random, arm) for _ in range(8)]
        own_s = SECONDS[arm] * (1.0 + abs(random.gauss(0.0, 0.06)))
        bandit.record(arm, 8, kept, own_s * pace)
        tokens, elapsed_s = tokens + sum(kept) + 8, elapsed_s + own_s
    length = 1.0 + sum(CHANCE**place for place in range(1, SHORT.steps + 1))
    return tokens / elapsed_s / (8 * length / SECONDS[SHORT])


def test_on_a_machine_whose_speed_changes_the_best_arm_is_found_and_kept() -> None:
    shares = sorted(share_of_best(seed, rounds=600) for seed in range(20))
    assert shares[10] > 0.93
    assert shares[0] > 0.75


@given(st.floats(0.01, 100.0), st.integers(4, 200))
def test_a_machine_that_becomes_slower_or_faster_changes_no_choice(pace: float, before: int) -> None:
    bandit = Bandit(DEFAULT_ARMS, BanditConfig(epsilon=0.0, hold_rounds=1), seed=0)
    speed = {OFF: 1.0, SHORT: 2.0, LONG: 3.0}
    play(bandit, speed, batch=1, rounds=20 + before)
    later = play(bandit, {arm: each / pace for arm, each in speed.items()}, batch=1, rounds=100)
    assert later.count(LONG) >= 90, "at most a few rounds tell the machine from the arm"


def test_an_arm_that_slows_down_alone_is_told_from_the_machine() -> None:
    bandit = Bandit(DEFAULT_ARMS, BanditConfig(epsilon=0.0, hold_rounds=1), seed=0)
    play(bandit, {OFF: 1.0, SHORT: 2.0, LONG: 3.0}, batch=1, rounds=400)
    later = play(bandit, {OFF: 1.0, SHORT: 2.0, LONG: 0.5}, batch=1, rounds=60)
    assert later[-40:].count(SHORT) >= 36


def test_the_pace_is_that_of_the_last_rounds_and_beside_an_arm_that_of_others() -> None:
    pace, one, other = MachinePace(), object(), object()
    assert pace.now == 1.0
    assert pace.beside(one) is None
    for ratio in (2.0, 2.0, 9.0):
        pace.ran(one, ratio)
    pace.ran(other, 3.0)
    assert pace.now == 2.5
    assert pace.beside(one) is None, "one round alone may be a pause"
    assert pace.beside(other) == 2.0
    for _ in range(7):
        pace.ran(other, 3.0)
    assert pace.beside(other) is None, "long ago"


def test_the_pace_is_doubtful_until_arms_were_compared_at_it() -> None:
    pace, arm = MachinePace(), object()
    for _ in range(5):
        pace.ran(arm, 1.3)
    assert not pace.is_doubtful
    for _ in range(5):
        pace.ran(arm, 0.5)
    assert pace.is_doubtful
    pace.compare()
    assert not pace.is_doubtful


@pytest.mark.parametrize("changed", [0.5, 2.0])
def test_times_that_change_for_good_replace_those_before_and_a_pause_does_not(changed: float) -> None:
    times = RoundTimes(window=64)
    assert times.seconds is None
    for _ in range(TIMES_WINDOW):
        times.add(1.0)
    for each in (9.0, 1.0, 9.0, 9.0, 1.0):
        times.add(each)
    assert times.seconds == 1.0
    for _ in range(2):
        times.add(changed)
    assert times.seconds == 1.0
    times.add(changed)
    assert times.seconds == changed


@given(st.lists(st.floats(1e-6, 1e6), max_size=60), st.integers(1, 64))
def test_a_time_is_one_of_those_measured_or_between_two(measured: list[float], window: int) -> None:
    times = RoundTimes(window=window)
    for each in measured:
        times.add(each)
    known = times.seconds
    assert known is None or min(measured) <= known <= max(measured)
