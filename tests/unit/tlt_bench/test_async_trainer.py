"""Figures of a run of an asynchronous trainer, and what its suites are told."""

import pytest

from tlt_bench.async_trainer.measure import settings_of
from tlt_bench.async_trainer.record import (
    OFF,
    ON,
    PACKED,
    AsyncSettings,
    RunSide,
    TakenTurn,
    TrainedStep,
    curve,
    figures_of,
    reward_gap,
)


def steps(*rewards: float, first: int = 1) -> list[TrainedStep]:
    return [
        TrainedStep(step=first + at, reward=reward, staleness_mean=0.5, staleness_max=at)
        for at, reward in enumerate(rewards)
    ]


def side(*tokens: int, drafters: int = 0) -> RunSide:
    turns = [
        TakenTurn(seconds=2.0, tokens=each, steps=1, trained_share=0.5, accept_length=2.0, running=8.0)
        for each in tokens
    ]
    return RunSide(turns=turns, steps=steps(0.2, 0.4, 0.6), drafters=drafters)


def test_sides_are_compared_by_turn() -> None:
    found = figures_of({ON: side(20, 50, drafters=3), OFF: side(10, 20)})
    assert found.figures["on_vs_off"] == 2.25
    assert found.spread["on_vs_off"] == (2.0, 2.5)
    assert found.figures["drafter_updates_on"] == 3
    assert found.figures["steps_per_minute_on"] == 30
    assert found.figures["staleness_on"] == 0.5
    assert found.figures["staleness_max_on"] == 2
    assert found.figures["reward_gap"] == 0
    assert found.notes["rewards_on"] == "0.200, 0.400, 0.600"


def test_a_reward_gap_is_over_the_steps_that_both_sides_took() -> None:
    gap, low, high = reward_gap(steps(9, 0.5, 0.7), steps(0.4, 0.4, 9, first=2))
    assert gap == pytest.approx(0.2)
    assert low == pytest.approx(0.2 - 1.96 * 0.1)
    assert high == pytest.approx(0.2 + 1.96 * 0.1)


@pytest.mark.parametrize("common", [0, 1])
def test_a_gap_without_two_common_steps_is_unbounded(common: int) -> None:
    assert reward_gap(steps(*[0.5] * common), steps(0.1))[1:] == (float("-inf"), float("inf"))


def test_a_curve_has_at_most_as_many_parts_as_steps() -> None:
    assert curve(steps(1, 2), parts=5) == [1, 2]
    assert curve(steps(1, 3, 5, 7), parts=2) == [2, 6]


def test_sides_differ_in_one_thing() -> None:
    told = {name: settings_of(name, AsyncSettings()) for name in (OFF, ON, PACKED)}
    off, on, packed = told[OFF], told[ON], told[PACKED]
    assert packed.pop("gateway") == {"pack_running": "24"}
    assert packed == on
    assert off["worker"].pop("engine.arms") == "off"
    assert off.pop("coordinator") == {"lending": "false"}
    assert off == on
