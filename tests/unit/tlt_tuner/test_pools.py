from dataclasses import replace
from random import Random
from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tlt_common.bandit import weighted_median
from tlt_common.domain.arm import ArmWindow
from tlt_common.domain.ids import DrafterVersion
from tlt_common.domain.tuner import PoolKey
from tlt_common.errors import InvalidRequestError
from tlt_tuner.pools import ARMS_PER_POOL, POOLS, WINDOWS_PER_ARM, PoolName, Pools

KEY = PoolKey(model="tiny", device="cpu", drafter_version=DrafterVersion(1))
NAME = PoolName("default", "tiny", "cpu")
weighted = st.lists(st.tuples(st.floats(0.0, 1e6), st.integers(1, 20)), min_size=1, max_size=30)
windows = st.builds(
    ArmWindow,
    arm=st.sampled_from(["off", "chain-3", "chain-7"]),
    group=st.sampled_from([1, 2, 4]),
    rounds=st.integers(0, 50),
    accepted_tokens=st.integers(0, 1000),
    produced_tokens=st.integers(0, 1000),
    elapsed_s=st.floats(0.0, 100.0),
    median_reward=st.floats(0.0, 1000.0),
)


def window(arm: str = "off", group: int = 1, *, rounds: int = 10, reward: float = 100.0) -> ArmWindow:
    return ArmWindow(
        arm=arm,
        group=group,
        rounds=rounds,
        accepted_tokens=0,
        produced_tokens=rounds,
        elapsed_s=rounds / reward,
        median_reward=reward,
    )


def with_drafter(version: int) -> PoolKey:
    return replace(KEY, drafter_version=DrafterVersion(version))


@given(weighted)
def test_the_weighted_median_splits_the_weight_in_halves(values: list[tuple[float, int]]) -> None:
    middle = weighted_median(values)
    whole = sum(weight for _, weight in values)
    assert sum(weight for value, weight in values if value < middle) <= whole / 2
    assert sum(weight for value, weight in values if value > middle) <= whole / 2
    assert middle in {value for value, _ in values}


@given(st.lists(st.floats(0.0, 1e6), min_size=1, max_size=31).filter(lambda values: len(values) % 2 == 1))
def test_with_equal_weights_it_is_the_median(values: list[float]) -> None:
    assert weighted_median((value, 3) for value in values) == median(values)


@given(st.lists(windows, max_size=WINDOWS_PER_ARM))
def test_a_pool_loses_and_invents_no_round(reported: list[ArmWindow]) -> None:
    pools = Pools()
    for seen in reported:
        pools.add(KEY, [seen])
    posterior = pools.posterior(NAME)
    pooled = posterior.arms if posterior else ()
    counted = [seen for seen in reported if seen.rounds]
    assert {(arm.arm, arm.group) for arm in pooled} == {(seen.arm, seen.group) for seen in counted}
    assert sum(arm.rounds for arm in pooled) == sum(seen.rounds for seen in counted)
    assert sum(arm.accepted_tokens for arm in pooled) == sum(seen.accepted_tokens for seen in counted)
    assert sum(arm.produced_tokens for arm in pooled) == sum(seen.produced_tokens for seen in counted)


def test_engines_of_one_model_and_device_share_what_they_learned() -> None:
    pools = Pools()
    pools.add(KEY, [window("chain-7", reward=100.0, rounds=10)])
    pools.add(KEY, [window("chain-7", reward=300.0, rounds=30), window("off", reward=50.0)])
    posterior = pools.posterior(NAME)
    assert posterior is not None
    assert {(arm.arm, arm.rounds, arm.median_reward) for arm in posterior.arms} == {
        ("chain-7", 40, 300.0),
        ("off", 10, 50.0),
    }


@pytest.mark.parametrize("other", [replace(KEY, model="other"), replace(KEY, device="H100"), replace(KEY, fleet="f")])
def test_other_fleets_models_and_devices_have_pools_of_their_own(other: PoolKey) -> None:
    pools = Pools()
    pools.add(KEY, [window(reward=1.0)])
    pools.add(other, [window(reward=2.0)])
    posterior = pools.posterior(NAME)
    assert posterior is not None
    assert [arm.median_reward for arm in posterior.arms] == [1.0]


def test_a_newer_drafter_forgets_the_rewards_of_the_one_before_but_of_arms_that_do_not_use_it() -> None:
    pools = Pools()
    pools.add(with_drafter(1), [window("chain-7"), window("tree-3x2-6"), window("off"), window("ngram-4")])
    assert pools.add(with_drafter(2), [window("chain-7", reward=7.0)])
    posterior = pools.posterior(NAME)
    assert posterior is not None
    assert posterior.drafter_version == 2
    assert {(arm.arm, arm.median_reward) for arm in posterior.arms} == {
        ("chain-7", 7.0),
        ("off", 100.0),
        ("ngram-4", 100.0),
    }


def test_rewards_of_an_older_drafter_come_too_late_but_of_arms_that_do_not_use_it() -> None:
    pools = Pools()
    pools.add(with_drafter(2), [window("chain-3")])
    before = pools.posterior(NAME)
    assert not pools.add(with_drafter(1), [window("chain-7")])
    assert pools.posterior(NAME) == before
    assert pools.add(with_drafter(0), [window("ngram-4")])
    after = pools.posterior(NAME)
    assert after is not None
    assert (after.drafter_version, {arm.arm for arm in after.arms}) == (2, {"chain-3", "ngram-4"})


@given(st.lists(windows, max_size=WINDOWS_PER_ARM), st.randoms())
def test_what_is_known_does_not_depend_on_the_order_of_reports(reported: list[ArmWindow], random: Random) -> None:
    def known(order: list[ArmWindow]) -> set[tuple[str, int, int, float]]:
        pools = Pools()
        for seen in order:
            pools.add(KEY, [seen])
        posterior = pools.posterior(NAME)
        arms = posterior.arms if posterior else ()
        return {(arm.arm, arm.group, arm.rounds, arm.median_reward) for arm in arms}

    shuffled = list(reported)
    random.shuffle(shuffled)
    assert known(shuffled) == known(reported)


def test_a_report_without_rounds_changes_nothing() -> None:
    pools = Pools()
    pools.add(KEY, [window()])
    assert not pools.add(KEY, [window(rounds=0)])


def test_only_the_latest_windows_of_an_arm_count() -> None:
    pools = Pools()
    for reward in [1.0] * 100 + [2.0] * WINDOWS_PER_ARM:
        pools.add(KEY, [window(reward=reward)])
    posterior = pools.posterior(NAME)
    assert posterior is not None
    (arm,) = posterior.arms
    assert (arm.median_reward, arm.rounds) == (2.0, 10 * WINDOWS_PER_ARM)


def test_the_pool_not_heard_of_for_longest_is_forgotten_first() -> None:
    pools = Pools()
    for number in range(POOLS):
        pools.add(replace(KEY, model=f"m{number}"), [window()])
    pools.add(replace(KEY, model="m0"), [window()])
    pools.add(replace(KEY, model="new"), [window()])
    assert pools.posterior(PoolName("default", "m0", "cpu")) is not None
    assert pools.posterior(PoolName("default", "m1", "cpu")) is None


def test_more_arms_than_an_engine_has_are_refused_whole() -> None:
    pools = Pools()
    with pytest.raises(InvalidRequestError, match=str(ARMS_PER_POOL)):
        pools.add(KEY, [window("off", group) for group in range(ARMS_PER_POOL + 1)])
    assert pools.posterior(NAME) is None


@pytest.mark.parametrize(
    ("key", "bad", "field"),
    [
        (replace(KEY, model=""), window(), "key.model"),
        (KEY, replace(window(), arm=""), "arms[0].arm"),
        (KEY, replace(window(), arm="chain-x"), "arms[0].arm"),
        (KEY, replace(window(), drafted_tokens=-1), "arms[0].drafted_tokens"),
        (KEY, replace(window(), rounds=-1), "arms[0].round_count"),
        (KEY, replace(window(), median_reward=float("nan")), "arms[0].median_reward"),
        (KEY, replace(window(), elapsed_s=float("inf")), "arms[0].elapsed_s"),
    ],
)
def test_what_no_engine_can_have_seen_is_refused_by_field(key: PoolKey, bad: ArmWindow, field: str) -> None:
    with pytest.raises(InvalidRequestError) as refused:
        Pools().add(key, [bad])
    assert refused.value.field == field
