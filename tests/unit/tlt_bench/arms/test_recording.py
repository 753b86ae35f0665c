"""Arms of a recording."""

from collections import Counter
from itertools import groupby, pairwise

from tlt_bench.arms.recording import FULL, RUNS, drawn_arms
from tlt_bench.tuner import TEN_ARMS

NAMES = [arm.name for arm in TEN_ARMS]


def test_every_arm_has_its_share_of_rounds() -> None:
    counts = Counter(drawn_arms(NAMES, seed=1))
    usual = sum(counts.values()) / len(NAMES)
    assert counts.keys() == set(NAMES)
    assert all(0.5 * usual < count < 1.5 * usual for count in counts.values())


def test_arms_stay_for_some_rounds_and_follow_each_other_in_no_order() -> None:
    arms = drawn_arms(NAMES, seed=1)
    runs = [len(list(rounds)) for _, rounds in groupby(arms)]
    assert set(runs) >= set(RUNS), "one arm may also end an order and begin the next"
    assert len({pair for pair in pairwise(arms) if pair[0] != pair[1]}) > 0.8 * 90
    assert arms == drawn_arms(NAMES, seed=1) != drawn_arms(NAMES, seed=2)


def test_the_longest_response_outlasts_one_turn_of_all_arms() -> None:
    # At 8 tokens a round the last response alone still sees every arm.
    assert FULL.longest / 8 > len(NAMES) * sum(RUNS) / len(RUNS)
