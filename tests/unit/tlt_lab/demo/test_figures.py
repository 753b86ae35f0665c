"""Figures of runs made by hand: what they must be whatever was measured."""

from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tlt_lab.demo.figures import figures, utilisation
from tlt_lab.demo.record import Difference, Greedy, Response, Rollout, Run, Side, Step, Swap

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
        Response(tokens=100, finished_s=seconds * (at + 1) / 10, reward=at / 10, correct=at >= 5, rounds=rounds)
        for at in range(10)
    )
    return Rollout(
        side=side, began_unix_s=began_s, seconds=seconds, responses=responses, ledger=ledger or {}, drafter_version=0
    )


def step(
    index: int, on: Rollout, off: Rollout, *, learn_s: float = 2.0, ledger: dict[str, float] | None = None
) -> Step:
    return Step(
        index=index,
        mix={2: 1.0},
        rollouts=(off, on) if index % 2 else (on, off),
        learn_began_unix_s=on.began_unix_s + STEP_S - learn_s,
        learn_s=learn_s,
        learn_ledger=ledger or {},
    )


def run(*steps: Step, swapped_at_s: float | None = -1.0, greedy: Greedy | None = None) -> Run:
    swaps = () if swapped_at_s is None else (Swap(version=1, at_unix_s=swapped_at_s, held_out_top1=0.5, worker="w"),)
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
        greedy=greedy,
    )


@given(seconds=SECONDS, learn_s=st.floats(0, 100))
def test_speedups_of_equal_sides_are_one(seconds: float, learn_s: float) -> None:
    same = step(0, rollout("on", seconds=seconds), rollout("off", seconds=seconds), learn_s=learn_s)
    found = figures(run(same))
    for name in RATIOS:
        assert found[name].median == pytest.approx(1.0)
        assert found[f"{name}_all"].median == pytest.approx(1.0)


@given(on_s=SECONDS, off_s=SECONDS, learn_s=st.floats(0, 100))
def test_learning_dilutes_a_speedup_and_never_turns_it(on_s: float, off_s: float, learn_s: float) -> None:
    found = figures(run(step(0, rollout("on", seconds=on_s), rollout("off", seconds=off_s), learn_s=learn_s)))
    whole, part = found["step_speedup"].median, found["rollout_speedup"].median
    assert min(1.0, part) - 1e-9 <= whole <= max(1.0, part) + 1e-9
    assert part == pytest.approx(off_s / on_s)


@given(on_s=SECONDS, off_s=SECONDS)
def test_exchanging_the_sides_inverts_every_ratio(on_s: float, off_s: float) -> None:
    there = figures(run(step(0, rollout("on", seconds=on_s), rollout("off", seconds=off_s))))
    back = figures(run(step(0, rollout("on", seconds=off_s), rollout("off", seconds=on_s))))
    for name in RATIOS:
        assert there[name].median * back[name].median == pytest.approx(1.0)


def test_the_order_of_the_sides_does_not_matter() -> None:
    first, second = (step(index, rollout("on", seconds=5), rollout("off", seconds=9)) for index in (0, 1))
    assert first.rollouts[0].side != second.rollouts[0].side
    assert figures(run(first)) == figures(run(second))


@given(st.lists(SECONDS, min_size=1, max_size=9))
def test_the_median_lies_within_the_spread(off_s: list[float]) -> None:
    found = figures(run(*(step(at, rollout("on"), rollout("off", seconds=s)) for at, s in enumerate(off_s))))
    assert found["rollout_speedup"].median == pytest.approx(median(s / 10.0 for s in off_s))
    for figure in found.values():
        assert figure.least <= figure.median <= figure.most


@given(on=LEDGERS, learning=LEDGERS, off=LEDGERS)
def test_utilisation_is_a_share_and_ignores_the_side_that_lends_nothing(
    on: dict[str, float], learning: dict[str, float], off: dict[str, float]
) -> None:
    with_off = step(0, rollout("on", ledger=on), rollout("off", ledger=off), ledger=learning)
    without = step(0, rollout("on", ledger=on), rollout("off"), ledger=learning)
    assert 0.0 <= utilisation([with_off]) <= 1.0
    assert utilisation([with_off]) == utilisation([without])


def test_utilisation_weighs_steps_by_their_bubbles() -> None:
    small = step(0, rollout("on", ledger={"training": 1.0}), rollout("off"))
    large = step(1, rollout("on", ledger={"idle": 6.0, "rollout": 50.0}), rollout("off"), ledger={"switching": 3.0})
    found = figures(run(small, large))["bubble_utilisation"]
    assert found.median == pytest.approx(0.1)
    assert (found.least, found.most) == (0.0, 1.0)


def test_steps_before_the_first_drafter_count_in_the_figures_over_all_steps_only() -> None:
    cold = step(0, rollout("on", rounds=100), rollout("off", seconds=10))
    warm = step(1, rollout("on", rounds=40, began_s=STEP_S), rollout("off", seconds=30))
    found = figures(run(cold, warm, swapped_at_s=50.0))
    assert found["rollout_speedup"].median == pytest.approx(3.0)
    assert found["rollout_speedup_all"].median == pytest.approx(2.0)
    assert found["accept_length_cold"].median == pytest.approx(1.0)
    assert found["accept_length_first"].median == found["accept_length_last"].median == pytest.approx(2.5)


def test_without_any_drafter_there_is_no_speedup_to_name() -> None:
    found = figures(run(step(0, rollout("on"), rollout("off")), swapped_at_s=None))
    assert not {*RATIOS, "accept_length_first", "accept_length_last"} & found.keys()
    assert {f"{name}_all" for name in RATIOS} <= found.keys()


def test_a_run_without_steps_has_no_ratios() -> None:
    assert not [name for name in figures(run()) if "speedup" in name or "accept" in name]


def test_the_tail_begins_when_nine_of_ten_are_there() -> None:
    assert rollout("on", seconds=10.0).tail_s == pytest.approx(1.0)


def test_greedy_agreement_is_a_share() -> None:
    differences = (Difference(response=1, token=9, gap=0.02), Difference(response=3, token=2, gap=None))
    found = figures(run(step(0, rollout("on"), rollout("off")), greedy=Greedy(responses=8, differences=differences)))
    assert found["greedy_identical"].median == pytest.approx(0.75)
    assert found["greedy_largest_gap"].median == pytest.approx(0.02)
    assert "greedy_identical" not in figures(run())
