from dataclasses import replace
from random import Random

import pytest

from tests.unit.tlt_bench.replay.worlds import EVEN, LONG, SHORT, made_world
from tlt_bench.replay.play import play_bandit, play_fixed
from tlt_bench.replay.verdict import hindsight, judge
from tlt_bench.replay.world import World, length_of
from tlt_common.bandit import BanditConfig
from tlt_common.domain.arm import OFF
from tlt_common.errors import ConfigError

CROSSING = {
    16: {OFF: 1.0, SHORT: 4.0, LONG: 9.0},
    8: {OFF: 1.0, SHORT: 2.0, LONG: 6.0},
    4: {OFF: 1.0, SHORT: 1.2, LONG: 3.0},
    2: {OFF: 1.0, SHORT: 1.1, LONG: 1.3},
    1: {OFF: 1.0, SHORT: 1.1, LONG: 1.3},
}
"""Off is best at large batches, long chains at small ones."""


def test_the_best_arm_per_batch_size_is_found_in_either_half() -> None:
    known = hindsight(made_world(time_of=CROSSING, rounds_each=400).rounds, repeats=2)
    best = {16: OFF, 8: SHORT, 4: SHORT, 2: LONG, 1: LONG}
    assert known.best_per_batch == (best, best)
    assert known.best_per_batch_seconds < min(known.fixed_seconds.values())


def test_halves_share_no_round() -> None:
    rounds = made_world().rounds
    one, other = World(rounds, half=0), World(rounds, half=1)
    random = Random(0)
    drawn = [
        {world.draw(OFF, moment, switched=False, random=random).at_s for moment in range(len(rounds))}
        for world in (one, other)
    ]
    assert drawn[0]
    assert not drawn[0] & drawn[1]


def test_luck_in_the_rounds_that_were_looked_at_earns_nothing() -> None:
    alike = dict.fromkeys((16, 8, 4, 2, 1), EVEN)
    rounds = made_world(time_of=alike, rounds_each=30, kept=0.0001).rounds  # no draft is ever kept: all arms are equal
    verdict = judge(hindsight(rounds, repeats=5), BanditConfig(), repeats=5)
    assert verdict.regret == pytest.approx(0.0, abs=0.03)
    assert verdict.regret_best_fixed == pytest.approx(0.0, abs=0.03)


def test_a_bandit_beats_every_fixed_arm_where_the_best_one_changes() -> None:
    rounds = made_world(time_of=CROSSING, rounds_each=400).rounds
    verdict = judge(hindsight(rounds, repeats=2), BanditConfig(), repeats=2)
    assert verdict.regret_best_fixed < 0.0 < verdict.regret < 0.1
    assert sum(verdict.share_of_rounds.values()) == pytest.approx(1.0)
    assert 0.0 < verdict.switches_per_round < 0.5


def test_a_pause_of_the_machine_is_not_the_arms() -> None:
    world = made_world(rounds_each=60)
    slow = [
        replace(played, elapsed_s=played.elapsed_s * (100 if i % 20 == 0 else 1))
        for i, played in enumerate(world.rounds)
    ]
    calm, paused = (play_fixed(each, lambda _: OFF, seed=0).seconds for each in (world, World(slow)))
    assert paused < 1.2 * calm


def test_an_arm_runs_only_where_it_was_recorded() -> None:
    recorded = made_world(time_of=CROSSING)
    world = World([played for played in recorded.rounds if played.arm != LONG or played.batch <= 2])
    assert {world.places[moment].group for moment in range(len(world.rounds)) if LONG in world.allowed(moment)} == {
        1,
        2,
    }
    fixed = play_fixed(world, lambda _: LONG, seed=0)
    assert set(fixed.rounds) == {OFF, LONG}
    assert play_bandit(world, BanditConfig(), seed=0).seconds > 0


def test_learned_arms_are_drawn_with_the_drafter_of_the_moment() -> None:
    world = made_world(drafters=(1, 2))
    for moment, played in enumerate(world.rounds):
        drawn = world.draw(LONG, moment, switched=False, random=Random(moment))
        assert drawn.drafter == played.drafter
        assert drawn.arm == LONG


def test_all_policies_produce_the_tokens_of_the_trace() -> None:
    world = made_world(rounds_each=50)
    tokens = sum(length_of(played) for played in world.rounds)
    for arm in world.arms:
        fixed = play_fixed(world, lambda _, arm=arm: arm, seed=0)  # type: ignore[misc]
        assert fixed.rounds[arm] * (arm.steps + 1) >= tokens - 8
    assert play_fixed(world, lambda _: OFF, seed=0).rounds[OFF] == pytest.approx(tokens, abs=1)


def test_the_same_seed_replays_the_same() -> None:
    world = made_world(rounds_each=30)
    assert play_bandit(world, BanditConfig(), seed=5) == play_bandit(world, BanditConfig(), seed=5)


def test_a_trace_with_nothing_to_draw_from_is_refused() -> None:
    rounds = made_world(time_of=CROSSING, rounds_each=400).rounds
    with pytest.raises(ConfigError, match="too few rounds without drafts at a batch of") as refused:
        hindsight(rounds[:1], repeats=2)
    assert refused.value.field == "trace"
