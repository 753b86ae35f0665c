from collections import Counter
from statistics import median

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.unit.tlt_common.bandit.playing import FREE, LONG, PATIENT, SHORT, batches, play, posterior, rewards, seeds
from tlt_common.bandit import (
    SPECULATE_BELOW_REQUESTS,
    TRIAL_ROUNDS,
    Bandit,
    BanditConfig,
    bucket,
    reward,
)
from tlt_common.bandit.window import MedianWindow
from tlt_common.domain.arm import DEFAULT_ARMS, OFF, Arm, chain, ngram, tree


@given(st.lists(rewards, min_size=1, max_size=50), st.integers(1, 20))
def test_the_kept_median_is_the_median_of_the_last_rewards(values: list[float], capacity: int) -> None:
    window = MedianWindow(capacity)
    for count, value in enumerate(values, start=1):
        window.add(value)
        assert window.median() == median(values[max(0, count - capacity) : count])


@given(batches)
def test_a_bucket_is_the_power_of_two_at_or_below_the_batch(batch: int) -> None:
    lower = bucket(batch)
    assert lower <= batch < 2 * lower
    assert lower & (lower - 1) == 0


@pytest.mark.parametrize("batch", [0, -1])
def test_no_requests_are_no_batch(batch: int) -> None:
    with pytest.raises(ValueError, match="bucket"):
        Bandit(DEFAULT_ARMS, BanditConfig(), seed=0).choose(batch)


def test_the_reward_is_produced_tokens_per_second() -> None:
    assert reward([3, 0, 1], 0.5) == (3 + 0 + 1 + 3) / 0.5


@pytest.mark.parametrize(("accepted", "elapsed_s"), [([], 1.0), ([1], 0.0), ([1], -1.0)])
def test_a_round_that_teaches_nothing_is_refused(accepted: list[int], elapsed_s: float) -> None:
    with pytest.raises(ValueError, match="no reward"):
        Bandit(DEFAULT_ARMS, BanditConfig(), seed=0).record(OFF, 1, accepted, elapsed_s)


@given(st.lists(batches, max_size=100), seeds)
def test_a_choice_is_always_allowed_at_its_batch_size(sizes: list[int], seed: int) -> None:
    config = BanditConfig(epsilon=0.5, group_below_requests={LONG.draft_tokens: 4})
    bandit = Bandit(DEFAULT_ARMS, config, seed)
    for batch in sizes:
        arm = bandit.choose(batch)
        assert arm == OFF or batch < SPECULATE_BELOW_REQUESTS
        assert arm != LONG or batch < 4
        bandit.record(arm, batch, [0] * batch, 1.0)


configs = st.builds(
    BanditConfig,
    epsilon=st.floats(0, 1),
    window=st.integers(1, 20),
    hold_rounds=st.integers(1, 6),
    speculate_below_requests=st.integers(1, 64),
    group_below_requests=st.dictionaries(st.sampled_from([4, 5, 6, 8]), st.integers(1, 64)),
)
ALL_KINDS = (OFF, SHORT, LONG, chain(7, sampled=False), tree(3, 2, 6), ngram(4))
events = st.one_of(
    st.tuples(st.just("round"), batches, st.lists(st.sampled_from(ALL_KINDS))),
    st.tuples(st.sampled_from(["drafter", "policy", "windows"]), st.none(), st.none()),
)


@given(configs, st.lists(events, max_size=60), seeds)
def test_whatever_happens_only_allowed_arms_come_out_and_a_seed_decides(
    config: BanditConfig, happened: list[tuple[str, int | None, list[Arm] | None]], seed: int
) -> None:
    def choices() -> list[Arm]:
        bandit = Bandit(ALL_KINDS, config, seed)
        chosen: list[Arm] = []
        for kind, batch, allowed in happened:
            if batch is not None and allowed is not None:
                arm = bandit.choose(batch, allowed)
                assert arm in (OFF, *allowed)
                assert arm == OFF or batch < config.speculate_below_requests
                assert arm == OFF or batch < config.group_below_requests.get(arm.draft_tokens, batch + 1)
                bandit.record(arm, batch, [arm.steps] * batch, 0.01 * (1 + len(chosen) % 7))
                chosen.append(arm)
            elif kind == "drafter":
                bandit.drafter_changed()
            elif kind == "policy":
                bandit.policy_changed()
            else:
                bandit.windows()
        return chosen

    assert choices() == choices()


@given(st.integers(1, 64), st.lists(st.integers(2, 128), min_size=2, unique=True))
def test_the_more_tokens_a_group_verifies_the_fewer_requests_it_is_allowed_with(most: int, tokens: list[int]) -> None:
    config = BanditConfig(speculate_below_requests=most)
    below = [config.below_requests(Arm(2, 2, count)) for count in sorted(tokens)]
    assert below == sorted(below, reverse=True)
    assert all(1 <= limit <= most for limit in below)


@given(st.lists(st.tuples(batches, st.lists(st.sampled_from(DEFAULT_ARMS)))), seeds)
def test_an_arm_the_caller_does_not_allow_never_comes_out(turns: list[tuple[int, list[Arm]]], seed: int) -> None:
    bandit = Bandit(DEFAULT_ARMS, BanditConfig(epsilon=0.5), seed)
    for batch, allowed in turns:
        arm = bandit.choose(batch, allowed)
        assert arm in (OFF, *allowed)
        bandit.record(arm, batch, [arm.steps] * batch, 1.0)


@given(st.integers(SPECULATE_BELOW_REQUESTS, 500), seeds)
def test_many_requests_run_without_drafts(batch: int, seed: int) -> None:
    assert Bandit(DEFAULT_ARMS, BanditConfig(epsilon=1.0), seed).choose(batch) == OFF


def test_off_is_an_arm_even_when_nobody_names_it() -> None:
    assert Bandit([LONG], BanditConfig(), seed=0).candidates(1) == (OFF, LONG)


@given(st.permutations(DEFAULT_ARMS), st.integers(1, 31), seeds)
def test_every_arm_is_tried_before_one_is_judged(arms: list[Arm], batch: int, seed: int) -> None:
    bandit = Bandit(arms, PATIENT, seed)
    tried = play(bandit, {OFF: 1.0, SHORT: 100.0, LONG: 10.0}, batch, rounds=3 * TRIAL_ROUNDS)
    assert Counter(tried) == dict.fromkeys(arms, TRIAL_ROUNDS)


@given(st.floats(0.01, 1.0), st.floats(0.0, 3.0), st.integers(1, 31), seeds)
def test_after_the_trials_the_fastest_arm_runs(off_s: float, draft_s: float, batch: int, seed: int) -> None:
    assume(abs(off_s - draft_s) > 1e-6)  # else all are equally fast
    speed = {arm: (arm.steps + 1) * batch / (off_s + arm.steps * draft_s) for arm in DEFAULT_ARMS}
    bandit = Bandit(DEFAULT_ARMS, PATIENT, seed)
    play(bandit, speed, batch, rounds=3 * TRIAL_ROUNDS)
    earned = {arm: reward([arm.steps] * batch, (arm.steps + 1) * batch / speed[arm]) for arm in DEFAULT_ARMS}
    assert earned[bandit.choose(batch)] == max(earned.values())


def test_a_long_chain_is_not_tried_where_the_short_one_says_that_it_is_hopeless() -> None:
    bandit = Bandit(DEFAULT_ARMS, PATIENT, seed=0)
    for arm in (OFF, SHORT):
        for _ in range(TRIAL_ROUNDS):
            assert bandit.choose(16) == arm
            # As measured with 16 requests on two cores: 0.4 s, and 1.4 s for 2.5 tokens.
            bandit.record(arm, 16, [0 if arm == OFF else 1] * 16, 0.4 if arm == OFF else 1.4)
    assert {bandit.choose(16) for _ in range(100)} == {OFF}


def test_a_long_chain_is_tried_where_verification_costs_next_to_nothing() -> None:
    bandit = Bandit(DEFAULT_ARMS, PATIENT, seed=0)
    for arm in (OFF, SHORT):
        for _ in range(TRIAL_ROUNDS):
            bandit.record(arm, 16, [0 if arm == OFF else 1] * 16, 0.010 if arm == OFF else 0.012)
    assert bandit.choose(16) == LONG


@settings(max_examples=5)
@given(seeds)
def test_exploration_stays_near_its_share_and_never_ends(seed: int) -> None:
    bandit = Bandit(DEFAULT_ARMS, BanditConfig(), seed)
    chosen = Counter(play(bandit, {OFF: 1.0, SHORT: 2.0, LONG: 3.0}, batch=4, rounds=8000))
    assert chosen[LONG] > 0.88 * 8000
    assert min(chosen[OFF], chosen[SHORT]) > 0.0003 * 8000


def test_another_batch_size_is_judged_by_its_own_rounds() -> None:
    bandit = Bandit(DEFAULT_ARMS, PATIENT, seed=0)
    assert play(bandit, {OFF: 1.0, SHORT: 2.0, LONG: 3.0}, batch=1, rounds=20)[-1] == LONG
    assert play(bandit, {OFF: 3.0, SHORT: 2.0, LONG: 1.0}, batch=16, rounds=20)[-1] == OFF
    assert bandit.choose(1) == LONG


def test_an_arm_that_was_hopeless_at_the_next_batch_size_is_not_tried_at_once() -> None:
    bandit = Bandit(DEFAULT_ARMS, FREE, seed=0)
    play(bandit, {OFF: 0.1, SHORT: 2.5, LONG: 3.0}, batch=2, rounds=200)
    assert set(play(bandit, {OFF: 0.1, SHORT: 2.5, LONG: 3.0}, batch=4, rounds=20)) == {SHORT, LONG}


@settings(max_examples=10)
@given(seeds)
def test_an_arm_that_was_not_tried_is_found_by_exploring(seed: int) -> None:
    bandit = Bandit(DEFAULT_ARMS, BanditConfig(), seed)
    play(bandit, {OFF: 0.1, SHORT: 2.5, LONG: 3.0}, batch=2, rounds=20)
    assert Counter(play(bandit, {OFF: 9.0, SHORT: 2.5, LONG: 3.0}, batch=4, rounds=8000))[OFF] > 1000


def test_an_arm_that_is_hardly_worse_at_the_next_batch_size_is_tried_at_once() -> None:
    bandit = Bandit(DEFAULT_ARMS, PATIENT, seed=0)
    play(bandit, {OFF: 0.1, SHORT: 2.8, LONG: 3.0}, batch=2, rounds=20)
    assert set(play(bandit, {OFF: 0.1, SHORT: 2.8, LONG: 3.0}, batch=4, rounds=20)) == {SHORT, LONG}


@given(st.integers(1, 8), seeds)
def test_a_choice_lasts_for_the_rounds_it_is_held(hold_rounds: int, seed: int) -> None:
    bandit = Bandit(DEFAULT_ARMS, BanditConfig(epsilon=1.0, hold_rounds=hold_rounds), seed)
    bandit.merge(posterior({OFF: 1.0, SHORT: 2.0, LONG: 3.0}, group=1))  # nothing is left to try
    chosen = play(bandit, dict.fromkeys(DEFAULT_ARMS, 1.0), batch=1, rounds=20 * hold_rounds)
    for start in range(0, len(chosen), hold_rounds):
        assert len(set(chosen[start : start + hold_rounds])) == 1


@given(seeds)
def test_a_stand_in_is_the_best_of_the_rest_and_does_not_end_the_turn(seed: int) -> None:
    bandit = Bandit(DEFAULT_ARMS, BanditConfig(epsilon=0.0, hold_rounds=8), seed)
    bandit.merge(posterior({OFF: 1.0, SHORT: 2.0, LONG: 3.0}, group=1))
    for _ in range(8):
        assert bandit.choose(1) == LONG
        assert bandit.stand_in(1, [SHORT]) == SHORT
        assert bandit.stand_in(1, []) == OFF


def test_a_held_arm_gives_way_when_the_batch_outgrows_it() -> None:
    bandit = Bandit(DEFAULT_ARMS, BanditConfig(epsilon=0.0, hold_rounds=100), seed=0)
    bandit.merge(posterior({OFF: 1.0, SHORT: 2.0, LONG: 3.0}, group=16))
    assert bandit.choose(31) == LONG
    assert bandit.choose(SPECULATE_BELOW_REQUESTS) == OFF


def test_a_noisy_first_round_does_not_condemn_an_arm() -> None:
    bandit = Bandit(DEFAULT_ARMS, PATIENT, seed=0)
    bandit.record(LONG, 1, [7], elapsed_s=1000.0)
    chosen = play(bandit, {OFF: 1.0, SHORT: 2.0, LONG: 3.0}, batch=1, rounds=20)
    assert set(chosen[3 * TRIAL_ROUNDS :]) == {LONG}


def test_an_arm_that_slows_down_is_left_once_its_window_has_seen_it() -> None:
    bandit = Bandit(DEFAULT_ARMS, BanditConfig(epsilon=0.0, hold_rounds=1, window=20), seed=0)
    assert play(bandit, {OFF: 1.0, SHORT: 2.0, LONG: 3.0}, batch=1, rounds=50)[-1] == LONG
    assert play(bandit, {OFF: 1.0, SHORT: 2.0, LONG: 0.5}, batch=1, rounds=50)[-1] == SHORT


@given(st.lists(st.tuples(st.sampled_from(DEFAULT_ARMS), st.lists(st.integers(0, 7), min_size=1, max_size=40))))
def test_windows_hold_every_round_exactly_once(rounds: list[tuple[Arm, list[int]]]) -> None:
    bandit = Bandit(DEFAULT_ARMS, BanditConfig(), seed=0)
    for arm, accepted in rounds:
        bandit.record(arm, len(accepted), accepted, elapsed_s=0.25)
    windows = bandit.windows()
    assert sum(window.rounds for window in windows) == len(rounds)
    assert sum(window.elapsed_s for window in windows) == 0.25 * len(rounds)
    assert sum(window.accepted_tokens for window in windows) == sum(sum(accepted) for _, accepted in rounds)
    assert sum(window.produced_tokens for window in windows) == sum(sum(kept) + len(kept) for _, kept in rounds)
    for window in windows:
        own = [kept for arm, kept in rounds if arm.name == window.arm and bucket(len(kept)) == window.group]
        assert window.median_reward == median(reward(kept, 0.25) for kept in own)
    assert bandit.windows() == ()


@given(seeds, st.lists(st.integers(1, 40), max_size=60))
def test_the_same_seed_makes_the_same_choices(seed: int, sizes: list[int]) -> None:
    def choices() -> list[Arm]:
        bandit = Bandit(DEFAULT_ARMS, BanditConfig(epsilon=0.5), seed)
        speed = {OFF: 1.0, SHORT: 2.0, LONG: 3.0}
        return [play(bandit, speed, batch, rounds=1)[0] for batch in sizes]

    assert choices() == choices()
