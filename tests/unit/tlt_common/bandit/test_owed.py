"""Found drafts owe the time in which the drafter catches up with them."""

from random import Random

from tests.unit.tlt_common.bandit.playing import SHORT
from tlt_common.bandit import Bandit, BanditConfig
from tlt_common.bandit.track import Owed
from tlt_common.domain.arm import OFF, Arm, ngram

FOUND = ngram(4)
ACCEPTED = {OFF: 0, SHORT: 2, FOUND: 3}
SECONDS = {OFF: 0.1, SHORT: 0.15, FOUND: 0.15}


def shares(catch_up_s: float, *, rounds: int = 2000) -> dict[Arm, float]:
    """Play rounds in which drafts are found every other time; return the share of rounds of each arm."""
    bandit, random = Bandit([SHORT, FOUND], BanditConfig(), seed=0), Random(1)
    ran, before = dict.fromkeys(ACCEPTED, 0), OFF
    for _ in range(rounds):
        arm = bandit.choose(1)
        if arm == FOUND and random.random() < 0.5:
            arm = bandit.stand_in(1, (OFF, SHORT))
        elapsed_s = SECONDS[arm] + (catch_up_s if arm == SHORT and before == FOUND else 0.0)
        bandit.record(arm, 1, [ACCEPTED[arm]], elapsed_s)
        ran[arm] += 1
        before = arm
    return {arm: count / rounds for arm, count in ran.items()}


def test_found_drafts_that_delay_the_drafter_by_more_than_they_bring_are_left() -> None:
    # Together 7 tokens in 0.3 s and the catching up; the drafter alone 6 in 0.3 s.
    assert shares(catch_up_s=0.02)[FOUND] > 0.4
    costly = shares(catch_up_s=0.2)
    assert costly[FOUND] < 0.05
    assert costly[SHORT] > 0.9


def test_the_drafter_is_not_charged_with_the_rounds_it_catches_up_with() -> None:
    bandit = Bandit([SHORT, FOUND], BanditConfig(epsilon=0.0), seed=0)
    for arm in (OFF, SHORT) * 3:
        bandit.record(arm, 1, [ACCEPTED[arm]], SECONDS[arm])
    for _ in range(100):
        bandit.record(FOUND, 1, [0], 0.1)
        bandit.record(SHORT, 1, [2], 1.0)
    assert bandit.choose(1) == SHORT


def test_one_pause_is_not_owed_for_a_window() -> None:
    owed = Owed(window=64)
    for number in range(10):
        owed.ran()
        owed.paid(60.0 if number == 3 else 0.1)
    assert owed.mean_s == 0.1
    for _ in range(500):
        owed.ran()
    assert owed.mean_s < 0.001


def test_what_other_rounds_took_shorter_is_no_credit() -> None:
    owed = Owed(window=4)
    owed.ran()
    owed.paid(-1.0)
    assert owed.mean_s == 0.0
