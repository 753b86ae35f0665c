import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.tlt_tuner.test_pools import KEY, NAME, window, windows
from tlt_common.domain.arm import ArmWindow
from tlt_tuner.pools import Pools
from tlt_tuner.regret import regret_tokens


def regret(*reported: ArmWindow) -> dict[int, float]:
    pools = Pools()
    pools.add(KEY, reported)
    known = pools.posterior(NAME)
    assert known is not None
    return dict(regret_tokens(known, [one for one in reported if one.rounds]))


def test_rounds_of_the_best_arm_cost_nothing() -> None:
    assert regret(window("chain-3", reward=300.0)) == {1: 0.0}


def test_rounds_of_another_arm_cost_what_the_best_would_have_produced_more() -> None:
    off, best = window("off", rounds=10, reward=100.0), window("chain-3", rounds=90, reward=300.0)
    assert regret(off, best)[1] == pytest.approx((300.0 - 100.0) * off.elapsed_s)


def test_arms_compare_within_their_group_only() -> None:
    assert regret(window("off", 1, reward=100.0), window("chain-3", 8, reward=900.0)) == {1: 0.0, 8: 0.0}


@given(st.lists(windows.filter(lambda reported: reported.rounds > 0), min_size=1, max_size=20))
def test_regret_is_never_negative(reported: list[ArmWindow]) -> None:
    assert all(tokens >= 0 for tokens in regret(*reported).values())
