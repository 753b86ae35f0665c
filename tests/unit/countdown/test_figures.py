"""Figures of runs made by hand: what they must be whatever was measured."""

from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from countdown.figures import figures, utilization
from countdown.record import GIVEN, Difference, Pairs, Response, Rollout, Run, Side, Step, Swap

STEP_S = 100.0
RATIOS = ("step_speedup", "rollout_speedup", "tail_speedup", "token_rate_speedup")
LEDGERS = st.dictionaries(
    st.sampled_from(["rollout", "training", "switching", "updating", "idle", "down"]), st.floats(0, 1e4)
)
SECONDS = st.floats(0.5, 500)


def rollout(
    side: Side, *, seconds: float = 10.0, rounds: int = 50, ledger: dict[str, float] | None = None, began_s: float = 0.0
) -> Rollout:
    """Ten responses of 100 tokens that finish evenly spread over `seconds`."""
    responses = tuple(
        Response(
            prompt=at // 2,
            sample=at % 2,
            tokens=100,
            finished_s=seconds * (at + 1) / 10,
            reward=at / 10,
            correct=at >= 5,
            rounds=rounds,
        )
        for at in range(10)
    )
    return Rollout(
        side=side, began_unix_s=began_s, seconds=seconds, responses=responses, ledger=ledger or {}, drafter_version=0
    )


def step(
    index: int,
    on: Rollout,
    off: Rollout | None,
    *,
    learn_s: float = 2.0,
    ledger: dict[str, float] | None = None,
    pairs: Pairs | None = None,
) -> Step:
    sides = (on,) if off is None else (on, off)
    return Step(
        index=index,
        mix={2: 1.0},
        rollouts=sides[::-1] if index % 2 else sides,
        learn_began_unix_s=on.began_unix_s + STEP_S - learn_s,
        learn_s=learn_s,
        learn_ledger=ledger or {},
        pairs=pairs,
    )


def run(*steps: Step, swapped_at_s: float | None = -1.0, worker: str = "w") -> Run:
    swaps = () if swapped_at_s is None else (Swap(version=1, at_unix_s=swapped_at_s, held_out_top1=0.5, worker=worker),)
    return Run(
        began_unix_s=0.0,
        ended_unix_s=STEP_S * len(steps),
        start_up_s=1.0,
        machine="none",
        versions={},
        settings={},
        steps=steps,
        intervals=(),
        swaps=swaps,
    )


@given(seconds=SECONDS, learn_s=st.floats(0, 100))
def test_speedups_of_equal_sides_are_one(seconds: float, learn_s: float) -> None:
    same = step(0, rollout("on", seconds=seconds), rollout("off", seconds=seconds), learn_s=learn_s)
    found = figures(run(same))
    for name in RATIOS:
        assert found[name].value == pytest.approx(1.0)


@given(on_s=SECONDS, off_s=SECONDS, learn_s=st.floats(0, 100))
def test_learning_dilutes_a_speedup_and_never_turns_it(on_s: float, off_s: float, learn_s: float) -> None:
    found = figures(run(step(0, rollout("on", seconds=on_s), rollout("off", seconds=off_s), learn_s=learn_s)))
    whole, part = found["step_speedup"].value, found["rollout_speedup"].value
    assert min(1.0, part) - 1e-9 <= whole <= max(1.0, part) + 1e-9
    assert part == pytest.approx(off_s / on_s)


@given(on_s=SECONDS, off_s=SECONDS)
def test_exchanging_the_sides_inverts_every_ratio(on_s: float, off_s: float) -> None:
    there = figures(run(step(0, rollout("on", seconds=on_s), rollout("off", seconds=off_s))))
    back = figures(run(step(0, rollout("on", seconds=off_s), rollout("off", seconds=on_s))))
    for name in RATIOS:
        assert there[name].value * back[name].value == pytest.approx(1.0)


def test_the_order_of_the_sides_does_not_matter() -> None:
    first, second = (step(index, rollout("on", seconds=5), rollout("off", seconds=9)) for index in (0, 1))
    assert first.rollouts[0].side != second.rollouts[0].side
    assert figures(run(first)) == figures(run(second))


@given(st.lists(SECONDS, min_size=1, max_size=9))
def test_the_median_lies_within_the_spread(off_s: list[float]) -> None:
    found = figures(run(*(step(at, rollout("on"), rollout("off", seconds=s)) for at, s in enumerate(off_s))))
    assert found["rollout_speedup"].value == pytest.approx(median(s / 10.0 for s in off_s))
    for figure in found.values():
        assert figure.low <= figure.value <= figure.high


@given(on=LEDGERS, learning=LEDGERS, off=LEDGERS)
def test_utilization_is_a_share_and_ignores_the_side_that_lends_nothing(
    on: dict[str, float], learning: dict[str, float], off: dict[str, float]
) -> None:
    with_off = step(0, rollout("on", ledger=on), rollout("off", ledger=off), ledger=learning)
    without = step(0, rollout("on", ledger=on), rollout("off"), ledger=learning)
    assert 0.0 <= utilization([with_off]) <= 1.0
    assert utilization([with_off]) == utilization([without])


def test_utilization_weighs_steps_by_their_bubbles() -> None:
    small = step(0, rollout("on", ledger={"training": 1.0}), rollout("off"))
    large = step(1, rollout("on", ledger={"idle": 6.0, "rollout": 50.0}), rollout("off"), ledger={"switching": 3.0})
    found = figures(run(small, large))["bubble_utilisation"]
    assert found.value == pytest.approx(0.1)
    assert (found.low, found.high) == (0.0, 1.0)


def test_a_step_that_ran_on_one_side_only_has_no_ratios() -> None:
    cold = step(0, rollout("on", rounds=100), None)
    warm = step(1, rollout("on", rounds=40, began_s=STEP_S), rollout("off", seconds=30))
    found = figures(run(cold, warm, swapped_at_s=50.0))
    assert found["rollout_speedup"].value == pytest.approx(3.0)
    assert found["accept_length_cold"].value == pytest.approx(1.0)
    assert found["accept_length_first"].value == found["accept_length_last"].value == pytest.approx(2.5)


def test_without_any_drafter_there_is_no_speedup_to_name() -> None:
    found = figures(run(step(0, rollout("on"), None), swapped_at_s=None))
    assert not {*RATIOS, "accept_length_first", "accept_length_last", "first_swap_minute"} & found.keys()


def test_the_first_swap_is_that_of_a_drafter_the_run_trained() -> None:
    assert figures(run(step(0, rollout("on"), None), swapped_at_s=90.0))["first_swap_minute"].value == 1.5
    given = figures(run(step(0, rollout("on"), rollout("off")), swapped_at_s=0.0, worker=GIVEN))
    assert "first_swap_minute" not in given
    assert "accept_length_first" in given


def test_rewards_come_with_an_interval_around_their_mean() -> None:
    found = figures(run(step(0, rollout("on"), rollout("off"))))
    assert found["reward_on"] == found["reward_off"]
    assert found["reward_on"].value == pytest.approx(0.45)
    assert found["reward_on"].low < 0.45 < found["reward_on"].high


def test_a_run_without_steps_has_no_ratios() -> None:
    assert not [name for name in figures(run()) if "speedup" in name or "accept" in name]


def test_the_tail_is_the_longest_tenth_whenever_it_finishes() -> None:
    made = rollout("on", seconds=10.0)
    longest = made.responses[3].model_copy(update={"tokens": 900})
    assert longest.finished_s == pytest.approx(4.0)
    responses = (*made.responses[:3], longest, *made.responses[4:])
    assert made.model_copy(update={"responses": responses}).tail_s == pytest.approx(4.0)


def test_identical_responses_are_a_share_of_all_pairs() -> None:
    differences = (Difference(prompt=0, sample=1, token=9, gap=0.02), Difference(prompt=3, sample=0, token=2, gap=None))
    some = Pairs(responses=8, differences=differences, max_logprob_gap=1e-5)
    every = Pairs(responses=8, max_logprob_gap=1e-6)
    steps = [step(at, rollout("on"), rollout("off"), pairs=pairs) for at, pairs in enumerate((some, every))]
    found = figures(run(*steps))
    assert found["identical_responses"].value == pytest.approx(14 / 16)
    assert (found["identical_responses"].low, found["identical_responses"].high) == (0.75, 1.0)
    assert found["max_logprob_gap"].value == 1e-5
    assert "identical_responses" not in figures(run(step(0, rollout("on"), rollout("off"))))
