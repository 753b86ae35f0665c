"""What is varied, on small runs of the real simulation."""

from statistics import fmean

import pytest

from tests.unit.tlt_simulator.comparisons import CAP, comparison, scenario, trace
from tlt_simulator.report.interval import interval
from tlt_simulator.report.provenance import named_figures
from tlt_simulator.report.sample import sample_size, sampled
from tlt_simulator.report.sensitivity import better_drafters, divided, merged, scaled_tails, sensitivity, variations
from tlt_simulator.report.what_to_set import TRIED, what_to_set
from tlt_simulator.run import compare
from tlt_simulator.sweep.keys import changed

TRACE = trace(steps=2, prompts=4, samples=2)


def test_every_number_with_an_interval_is_varied_and_the_run_itself() -> None:
    names = {one.name for one in variations(scenario(), CAP)}
    assert names == {"tail", "drafter_quality", "update_frequency", "fleet"} | {
        named.name for named in named_figures(scenario()) if named.has_interval
    }


def test_a_longer_tail_leaves_the_median_and_stays_within_the_cap() -> None:
    steps = trace(steps=4, prompts=32).steps
    before = sorted(sample.tokens for step in steps for sample in step.samples)
    for factor in (0.5, 1.5):
        after = sorted(sample.tokens for step in scaled_tails(steps, factor, CAP) for sample in step.samples)
        middle = len(before) // 2
        assert after[:middle] == before[:middle]
        assert (after[-2] < before[-2]) == (factor < 1)
        assert after[-1] <= CAP


def test_what_a_cap_cut_stays_cut() -> None:
    steps = scaled_tails(trace(steps=8, prompts=64).steps, 30.0, CAP)
    assert {sample.ends for step in steps for sample in step.samples if sample.tokens == CAP} == {False}


def test_steps_are_merged_and_divided_with_all_their_responses() -> None:
    steps = trace(steps=3, prompts=5, samples=2).steps
    assert [len(step.samples) for step in merged(steps)] == [20, 10]
    halves = divided(steps)
    assert [len(step.samples) for step in halves] == [6, 4] * 3
    for half in halves:
        counts = [sample.prompt for sample in half.samples]
        assert all(counts.count(prompt) == 2 for prompt in counts)


def test_better_drafters_stay_probable() -> None:
    assert better_drafters(scenario(), 0.5).costs.accept_best.value == 0.98
    assert better_drafters(scenario(), -0.9).costs.accept_start.value == 0.0


def test_the_sample_is_bounded_and_has_both_ends() -> None:
    whole = trace(steps=9)
    assert sampled(whole, 3) == (whole.steps[0], whole.steps[4], whole.steps[8])
    assert sampled(whole, 20) == whole.steps
    assert sampled(whole, 1) == (whole.steps[4],)
    assert sample_size(comparison(steps=60), 10, budget_s=1.0) < sample_size(comparison(steps=60), 10, budget_s=5.0)
    assert sample_size(comparison(steps=60), 10**6) == 4
    assert sample_size(comparison(steps=3), 10**6) == 3


def test_the_widest_swing_comes_first_and_all_are_finite() -> None:
    told = list[int]()
    found = sensitivity(scenario(), TRACE, TRACE.steps, processes=1, progress=told.append)
    widths = [swing.width for swing in found.swings]
    assert widths == sorted(widths, reverse=True)
    assert len(told) == 2 * len(found.swings) + 1
    tail = next(swing for swing in found.swings if swing.name == "tail")
    assert tail.at_low.without.seconds < found.base.without.seconds < tail.at_high.without.seconds
    assert found.steps == "all 2 steps"


def test_the_interval_surrounds_the_result() -> None:
    whole = compare(TRACE, scenario())
    found = interval(whole, TRACE, TRACE.steps, processes=1, draws=8)
    assert found is not None
    assert found.speedup.low < whole.speedup < found.speedup.high
    assert sum(found.varied.values()) == sum(named.has_interval for named in named_figures(scenario()))
    assert found == interval(whole, TRACE, TRACE.steps, processes=1, draws=8)


def test_what_to_set_is_only_what_is_better_than_what_is_set() -> None:
    slow = changed(scenario(), {"engine.speculate_below_requests": "1"})
    found = what_to_set(slow, TRACE, TRACE.steps, processes=1)
    assert "engine.speculate_below_requests" in found.chosen
    assert any(line.startswith("--set worker.engine.speculate_below_requests=") for line in found.lines)
    assert found.gain > 0
    assert {one.key for one in found.tried} <= set(TRIED)
    assert fmean(one.gain for one in found.tried if one.is_beyond_noise) > 0


@pytest.mark.parametrize("key", TRIED)
def test_values_that_are_tried_are_accepted(key: str) -> None:
    for value in TRIED[key]:
        changed(scenario(), {key: value})
