"""What is lost to other arms than the best stays below its bound. Time is virtual."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.tlt_common.bandit.playing import LONG, SHORT, seeds
from tlt_common.bandit import TRIAL_ROUNDS, Bandit, BanditConfig
from tlt_common.bandit.exploration import EXPLORATION_SHARE, ExplorationBudget
from tlt_common.domain.arm import OFF, Arm

ARMS = (OFF, SHORT, LONG)
HOLD = BanditConfig().hold_rounds
times_s = st.floats(1e-4, 100.0)


@given(
    st.lists(st.tuples(times_s, times_s, st.floats(0.0, 3.0)), max_size=200),
    st.floats(0.001, 0.5),
)
def test_over_any_rounds_the_loss_is_the_share_of_their_time_and_what_one_exploration_cost_too_much(
    turns: list[tuple[float, float, float]], share: float
) -> None:
    """Turns: seconds of a round of the best arm, then expected cost of an exploration, and its real cost over that."""
    budget, passed_s, lost_s, surprise_s = ExplorationBudget(share), 0.0, 0.0, 0.0
    for round_s, expected_s, factor in turns:
        budget.ran(round_s)
        passed_s += round_s
        if budget.affords(expected_s):
            real_s = factor * expected_s
            budget.ran(2.0 * real_s, real_s)
            passed_s, lost_s = passed_s + 2.0 * real_s, lost_s + real_s
            surprise_s = max(surprise_s, real_s - expected_s)
        assert lost_s <= share * passed_s + surprise_s + 1e-6


def test_what_loses_nothing_is_always_affordable_and_what_was_lost_must_be_saved_first() -> None:
    budget = ExplorationBudget(0.01)
    assert budget.affords(0.0)
    assert not budget.affords(0.5)
    assert budget.affords(0.5, lent_s=0.5)
    budget.ran(100.0)
    assert budget.affords(0.5)
    budget.ran(4.0, 2.0)
    assert budget.affords(-1.0)
    assert not budget.affords(0.5)
    budget.ran(200.0)
    assert budget.affords(0.5)


def test_savings_have_a_limit() -> None:
    budget = ExplorationBudget(0.01)
    budget.ran(1e6)
    assert not budget.affords(10.0)
    budget.ran(1e6)
    assert budget.affords(10.0)  # a machine whose rounds are so long must be able to explore


class World:
    """Arms with fixed speeds, whose rounds vary."""

    def __init__(self, lengths: dict[Arm, float], rounds_s: dict[Arm, float], seed: int) -> None:
        self.lengths, self.rounds_s, self._random = lengths, rounds_s, Random(seed)

    def rate(self, arm: Arm) -> float:
        """Return the tokens per second and request."""
        return self.lengths[arm] / self.rounds_s[arm]

    def play(self, bandit: Bandit, batch: int, rounds: int) -> tuple[float, float]:
        """Return the seconds that rounds took, and the seconds lost to other arms than the best."""
        best = max(map(self.rate, ARMS))
        passed_s = lost_s = 0.0
        for _ in range(rounds):
            arm = bandit.choose(batch)
            share = (self.lengths[arm] - 1.0) / max(1, arm.steps)
            kept = [sum(self._random.random() < share for _ in range(arm.steps)) for _ in range(batch)]
            elapsed_s = self.rounds_s[arm] * self._random.uniform(0.9, 1.1)
            bandit.record(arm, batch, kept, elapsed_s)
            passed_s += self.rounds_s[arm]
            lost_s += self.rounds_s[arm] * (1.0 - self.rate(arm) / best)
        return passed_s, lost_s


@settings(max_examples=20, deadline=None)
@given(
    seed=seeds,
    batch=st.sampled_from([1, 8, 16]),
    extra=st.floats(0.0, 0.3),
    short_s=st.floats(1.3, 2.5),
    long_s=st.floats(1.8, 4.0),
)
def test_with_a_poor_drafter_a_bandit_loses_its_share_and_one_trial(
    seed: int, batch: int, extra: float, short_s: float, long_s: float
) -> None:
    """Off is best by a distance; each arm is tried once before that is known."""
    world = World({OFF: 1.0, SHORT: 1.0 + extra, LONG: 1.0 + extra}, {OFF: 1.0, SHORT: short_s, LONG: long_s}, seed)
    passed_s, lost_s = world.play(Bandit(ARMS, BanditConfig(), seed), batch, rounds=4000)
    tried_once_s = TRIAL_ROUNDS * (short_s + long_s)
    one_turn_s = HOLD * max(short_s, long_s)
    # Round times are known to within their noise, of which the worst case is a tenth of what is lost.
    assert lost_s <= 1.1 * EXPLORATION_SHARE * passed_s + tried_once_s + one_turn_s


@pytest.mark.parametrize("seed", range(3))
def test_new_drafters_that_are_as_poor_do_not_add_to_it(seed: int) -> None:
    world = World({OFF: 1.0, SHORT: 1.1, LONG: 1.1}, {OFF: 1.0, SHORT: 1.9, LONG: 2.9}, seed)
    bandit, passed_s, lost_s = Bandit(ARMS, BanditConfig(), seed), 0.0, 0.0
    for _ in range(40):
        seconds, lost = world.play(bandit, 8, rounds=100)
        passed_s, lost_s = passed_s + seconds, lost_s + lost
        bandit.drafter_changed()
    assert lost_s <= 1.1 * EXPLORATION_SHARE * passed_s + TRIAL_ROUNDS * (1.9 + 2.9) + HOLD * 2.9


@pytest.mark.parametrize("seed", range(3))
def test_a_drafter_that_becomes_good_is_found(seed: int) -> None:
    world = World({OFF: 1.0, SHORT: 1.1, LONG: 1.1}, {OFF: 1.0, SHORT: 1.5, LONG: 2.0}, seed)
    bandit = Bandit(ARMS, BanditConfig(), seed)
    world.play(bandit, 8, rounds=500)
    world.lengths = {OFF: 1.0, SHORT: 3.0, LONG: 5.0}
    world.play(bandit, 8, rounds=6000)
    _, lost_s = world.play(bandit, 8, rounds=500)
    assert lost_s < 0.05 * 500 * 2.0


def test_a_drafter_pays_until_off_is_known_to_be_better() -> None:
    bandit = Bandit(ARMS, BanditConfig(), seed=0)
    assert bandit.drafter_pays(8)
    World({OFF: 1.0, SHORT: 1.1, LONG: 1.1}, {OFF: 1.0, SHORT: 1.9, LONG: 2.9}, 0).play(bandit, 8, rounds=50)
    assert not bandit.drafter_pays(8)
    assert bandit.drafter_pays(1)  # not known yet
    assert not Bandit([OFF], BanditConfig(), seed=0).drafter_pays(8)
