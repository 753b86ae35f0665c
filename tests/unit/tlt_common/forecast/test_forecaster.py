"""Forecasts of running responses: bounds, calibration, siblings and epochs."""

import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tlt_bench.forecast.lengths import ALIKE, THINKING, WORKLOADS, Workload
from tlt_bench.forecast.measure import Tally, played
from tlt_common.forecast import LEVELS, Forecaster, Left, Running

CAP = 8000


def learned(
    *, of_prompt: float = 0.0, prompts: int = 200, group: int = 4, epochs: int = 2
) -> tuple[Forecaster, list[float]]:
    """A forecaster after some epochs, and the level of each prompt's lengths."""
    chance, forecaster = random.Random(3), Forecaster()
    levels = [chance.gauss(6.0, of_prompt) for _ in range(prompts)]
    for _ in range(epochs):
        for prompt, level in enumerate(levels):
            for _ in range(group):
                length = round(chance.lognormvariate(level, 0.4))
                forecaster.finished(Running(prompt=prompt, generated=min(length, CAP), cap=CAP), ended=length < CAP)
            forecaster.look(())
    return forecaster, levels


PLAIN, _ = learned()
BY_PROMPT, LEVEL_OF = learned(of_prompt=0.8)

running = st.builds(
    Running,
    prompt=st.integers(0, 300),
    generated=st.integers(0, CAP - 1),
    cap=st.integers(CAP, 4 * CAP),
)


def test_without_experience_there_is_no_forecast() -> None:
    forecaster = Forecaster()
    forecaster.look([Running(prompt=0, generated=5, cap=10)])
    assert not forecaster.ready
    with pytest.raises(ValueError, match="too few"):
        forecaster.left([Running(prompt=0, generated=5, cap=10)])


@given(st.lists(running, min_size=1, max_size=12))
def test_quantiles_rise_and_stay_within_the_cap(requests: list[Running]) -> None:
    for forecaster in (PLAIN, BY_PROMPT):
        for request, left in zip(requests, forecaster.left(requests), strict=True):
            assert len(left.tokens) == len(LEVELS)
            assert all(before <= after for before, after in pairwise(left.tokens))
            assert left.tokens[0] >= 0.0
            assert left.tokens[-1] <= request.cap - request.generated


@given(st.lists(running, min_size=1, max_size=8), st.floats(0.001, 0.1))
def test_the_last_end_is_no_earlier_than_any_and_no_later_than_all_caps(requests: list[Running], pace_s: float) -> None:
    paces = [pace_s] * len(requests)
    low, high = BY_PROMPT.ends(requests, paces, (0.1, 0.9))
    assert 0.0 <= low <= high <= max(one.cap - one.generated for one in requests) * pace_s + 1e-9
    fewer_low, fewer_high = BY_PROMPT.ends(requests[:1], paces[:1], (0.1, 0.9))
    assert len(requests) > 1 or (fewer_low, fewer_high) == (low, high)


def test_what_was_generated_is_known() -> None:
    """A log-normal response that got far is likely to get much further."""
    short, long = PLAIN.left([Running(prompt=1, generated=300, cap=CAP), Running(prompt=2, generated=1500, cap=CAP)])
    assert long.median > 0.0
    assert short.median < 500.0


def test_siblings_that_ended_early_tell_of_a_short_one() -> None:
    alone = BY_PROMPT.left([Running(prompt="new", generated=50, cap=CAP)])[0]
    forecaster, _ = learned(of_prompt=0.8)
    for length in (90, 110, 120):
        forecaster.finished(Running(prompt="new", generated=length, cap=CAP), ended=True)
    request = Running(prompt="new", generated=50, cap=CAP)
    forecaster.look([request])
    beside = forecaster.left([request])[0]
    assert beside.median < alone.median / 2
    assert beside.tokens[-2] - beside.tokens[1] < (alone.tokens[-2] - alone.tokens[1]) / 2


def test_siblings_that_still_run_tell_of_a_long_one() -> None:
    one = Running(prompt="new", generated=50, cap=CAP)
    far = [Running(prompt="new", generated=2500, cap=CAP)] * 3
    assert BY_PROMPT.left([one, *far])[0].median > 1.5 * BY_PROMPT.left([one])[0].median


def test_earlier_epochs_tell_of_the_prompt() -> None:
    order = sorted(range(len(LEVEL_OF)), key=lambda prompt: LEVEL_OF[prompt])
    easy, hard = (Running(prompt=prompt, generated=20, cap=CAP) for prompt in (order[5], order[-5]))
    lefts = BY_PROMPT.left([easy, hard])
    assert lefts[1].median > 3 * lefts[0].median


def test_where_prompts_tell_nothing_they_are_not_believed() -> None:
    forecaster, _ = learned()
    for length in (90, 110, 120):
        forecaster.finished(Running(prompt="new", generated=length, cap=CAP), ended=True)
    request = Running(prompt="new", generated=50, cap=CAP)
    forecaster.look([request])
    alone = PLAIN.left([Running(prompt="other", generated=50, cap=CAP)])[0]
    assert forecaster.left([request])[0].median == pytest.approx(alone.median, rel=0.15)


tokens_left = st.floats(0.0, 10_000.0, allow_subnormal=False)  # half of the least number is 0, and no share of that


@given(st.lists(tokens_left, min_size=len(LEVELS), max_size=len(LEVELS)).map(sorted), st.floats(0.0, 1.0))
def test_draws_have_the_quantiles(tokens: list[float], share: float) -> None:
    left = Left(tuple(tokens))
    assert tokens[0] / 2 <= left.at(share) <= tokens[-1] * 1.5 + 1.0
    assert all(left.at(level) == pytest.approx(value, abs=1e-6) for level, value in zip(LEVELS, tokens, strict=True))
    assert left.share_below(left.at(share)) >= share - 1e-6


def coverage(inside: list[bool]) -> float:
    return sum(inside) / len(inside)


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda one: one.name)
def test_intervals_of_80_percent_hold_80_percent(workload: Workload) -> None:
    tallies: list[Tally] = [played(workload, seed=seed, prompts=32, steps=4) for seed in (1, 2)]
    assert 0.72 < coverage([inside for tally in tallies for inside in tally.inside]) < 0.88


def test_prompts_that_differ_make_forecasts_better_than_lengths_do() -> None:
    tally, plain = played(THINKING, seed=1, prompts=32, steps=5), played(ALIKE, seed=1, prompts=32, steps=5)
    assert sum(tally.errors) < 0.95 * sum(tally.plain_errors)
    assert sum(plain.errors) < 1.03 * sum(plain.plain_errors)


def test_without_steps_forecasts_are_calibrated_too() -> None:
    """A steady load: a response begins whenever one ends, as with asynchronous trainers."""
    chance, forecaster, inside = random.Random(5), Forecaster(), list[bool]()
    running: list[tuple[int, int, int]] = []  # prompt, length, begun at
    for now in range(0, 60_000, 20):
        for one in [one for one in running if now - one[2] >= one[1]]:
            running.remove(one)
            forecaster.finished(Running(prompt=one[0], generated=one[1], cap=CAP), ended=one[1] < CAP)
        while len(running) < 64:
            running.append((now + len(running), min(CAP, 1 + round(chance.lognormvariate(6.0, 0.9))), now))
        if now % 2000 == 0:
            requests = [Running(prompt=one[0], generated=now - one[2], cap=CAP) for one in running]
            forecaster.look(requests)
            if forecaster.ready and now > 10_000:
                for one, left in zip(running, forecaster.left(requests), strict=True):
                    inside.append(left.tokens[1] - 1 <= one[1] - (now - one[2]) <= left.tokens[5] + 1)
    assert 0.75 < coverage(inside) < 0.85


def test_a_prompt_whose_responses_were_all_aborted_teaches_nothing_and_harms_nothing() -> None:
    """Ctrl-C in a trainer, a client's time-out or oversampling ends all responses to a prompt."""
    forecaster, _ = learned()
    for epoch in range(3):
        for _ in range(4):
            forecaster.finished(Running(prompt="aborted", generated=50, cap=CAP), ended=False)
        forecaster.look(())
        if epoch == 1:  # beside one that ended
            forecaster.finished(Running(prompt="aborted", generated=50, cap=CAP), ended=True)
            forecaster.look(())
    assert len(forecaster.left([Running(prompt="aborted", generated=5, cap=CAP)])) == 1


@given(
    st.lists(
        st.lists(
            st.tuples(st.integers(0, 5), st.integers(0, 2 * CAP), st.integers(0, CAP), st.booleans(), st.booleans()),
            max_size=20,
        ),
        min_size=1,
        max_size=6,
    )
)
def test_whatever_ends_however_the_forecast_goes_on(looks: list[list[tuple[int, int, int, bool, bool]]]) -> None:
    forecaster, _ = learned(prompts=20)
    for responses in looks:
        still = list[Running]()
        for prompt, generated, cap, ended, runs in responses:
            one = Running(prompt=prompt, generated=generated, cap=cap)
            if runs:
                still.append(one)
            else:
                forecaster.finished(one, ended=ended)
        forecaster.look(still)
        assert len(forecaster.left(still)) == len(still)
        forecaster.ends(still, [0.01] * len(still), (0.5, 0.9))
