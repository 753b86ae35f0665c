"""Lengths of a distribution are those that were asked for, and what is wrong in one is refused by its key."""

import re
from math import exp, log
from statistics import fmean, pstdev, quantiles

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tlt_common.errors import ConfigError
from tlt_simulator.trace import RunTrace
from tlt_simulator.traces import LengthSpec, drawn_trace, parsed_lengths


def lengths(trace: RunTrace) -> list[int]:
    return [one.tokens for step in trace.steps for one in step.samples]


def drawn(text: str, *, steps: int = 4, prompts: int = 500, group: int = 8) -> RunTrace:
    return drawn_trace(parsed_lengths(text), steps=steps, prompts=prompts, group=group, seed=1, of=steps * prompts)


@pytest.mark.parametrize(
    "text",
    [
        "lognormal:median=5000,p99=30000,cap=2000000",
        "quantiles:p50=5000,p90=13430,p99=30000,cap=2000000",
        "quantiles:p50=5000,p90=9000,p99=30000,cap=2000000,chance_spread=0.1",
    ],
)
def test_quantiles_are_those_that_were_given(text: str) -> None:
    found = quantiles(lengths(drawn(text)), n=100)
    assert found[49] == pytest.approx(5000, rel=0.07)
    assert found[98] == pytest.approx(30_000, rel=0.12)
    if "p90" in text:
        assert found[89] == pytest.approx(float(re.findall(r"p90=(\d+)", text)[0]), rel=0.1)


def test_spreads_are_between_prompts_and_by_chance() -> None:
    trace = drawn("lognormal:median=3000,prompt_spread=0.6,epoch_spread=0,chance_spread=0.3,cap=2000000", group=16)
    groups = dict[int, list[float]]()
    for step in trace.steps:
        for one in step.samples:
            groups.setdefault(one.prompt, []).append(log(one.tokens))
    assert fmean(pstdev(group) for group in groups.values()) == pytest.approx(0.3, rel=0.1)
    assert pstdev(fmean(group) for group in groups.values()) == pytest.approx(0.6, rel=0.1)


def test_the_cap_cuts_and_endless_responses_reach_it() -> None:
    trace = drawn("lognormal:median=1000,spread=0.2,endless=0.05,cap=8000")
    cut = [one for step in trace.steps for one in step.samples if not one.ends]
    assert trace.cap == 8000
    assert {one.tokens for one in cut} == {8000}
    assert len(cut) / trace.responses == pytest.approx(0.05, rel=0.2)


def test_lengths_drift() -> None:
    trace = drawn("lognormal:median=1000,spread=0.1,drift=0.1,cap=100000", steps=6)
    means = [fmean(one.tokens for one in step.samples) for step in trace.steps]
    assert means[5] / means[0] == pytest.approx(exp(0.5), rel=0.05)


def test_prompts_come_back_in_later_epochs_and_seeds_differ() -> None:
    spec = parsed_lengths("lognormal:median=1000")
    first, again, other = (drawn_trace(spec, steps=4, prompts=6, group=2, seed=seed, of=12) for seed in (1, 1, 2))
    prompts = [{one.prompt for one in step.samples} for step in first.steps]
    assert prompts[0] | prompts[1] == prompts[2] | prompts[3] == set(range(12))
    assert first == again
    assert lengths(first) != lengths(other)
    few = drawn_trace(spec, steps=1, prompts=5, group=1, of=2)
    assert few.responses == 5


@given(
    st.floats(1, 1e5),
    st.floats(1.01, 50),
    st.floats(1.01, 50),
    st.lists(st.floats(-6, 6), min_size=2, max_size=9).map(sorted),
)
def test_longer_stays_longer_when_the_distribution_is_bent(
    p50: float, to_p90: float, to_p99: float, deviations: list[float]
) -> None:
    p90 = min(p50 * to_p90, 2e6)
    spec = LengthSpec(median=p50, p90=p90, p99=min(p90 * to_p99, 2e6), cap=2**21)
    found = [spec.tokens(deviation * spec.spread) for deviation in deviations]
    assert found == sorted(found)
    assert spec.tokens(0.0) == pytest.approx(p50)


REFUSED = {
    "": "'' is not a distribution",
    "lognormal": "is not a distribution",
    "normal:median=5": "'normal' is not a distribution",
    "lognormal:": "'' is not a key",
    "lognormal:p99=5": "median is missing",
    "lognormal:median=5000,p99=30000,cap": "cap is ''; accepted: a number",
    "lognormal:median=5k": "median is '5k'; accepted: a number",
    "lognormal:median=5,median=6": "median appears twice",
    "lognormal:median=5,mode=6": "'mode' is not a key",
    "lognormal:median=0": "median: ",
    "lognormal:median=-5": "median: ",
    "lognormal:median=nan": "median: ",
    "lognormal:median=inf": "median: ",
    "lognormal:median=1e9": "median: ",
    "lognormal:median=5000,cap=0": "cap: ",
    "lognormal:median=5000,cap=100.5": "cap: ",
    "lognormal:median=5000,cap=100": "the median, 5000, must be at most the cap, 100",
    "lognormal:median=5000,p99=5000": "p99 is 5000; accepted: more than the median",
    "lognormal:median=5000,p99=nan": "p99 is nan; accepted: more than the median",
    "lognormal:median=5000,p99=6000,spread=1": "p99 and spread say the same",
    "lognormal:median=5000,spread=-1": "prompt_spread: ",
    "lognormal:median=5000,endless=2": "endless: ",
    "lognormal:median=5000,prompt_spread=0,epoch_spread=0,chance_spread=0,spread=1": "all spreads are 0",
    "quantiles:p50=5000,p99=30000": "p90 is missing",
    "quantiles:p50=5000,p90=4000,p99=30000": "must rise",
    "quantiles:p50=5000,p90=9000,p99=8000": "must rise",
    "quantiles:p50=5,p90=9,p99=10,prompt_spread=0,epoch_spread=0,chance_spread=0": "must not all be 0",
}


@pytest.mark.parametrize("text", REFUSED)
def test_a_distribution_is_refused_by_its_key(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parsed_lengths(text)
    assert REFUSED[text] in caught.value.message
    assert caught.value.message.startswith("lengths: ")


@pytest.mark.parametrize("name", ["steps", "prompts", "group", "of"])
@pytest.mark.parametrize("value", [0, -1, True, 1.5])
def test_sizes_of_a_drawn_trace_are_refused_by_name(name: str, value: object) -> None:
    sizes: dict[str, object] = {"steps": 1, "prompts": 1, "group": 1} | {name: value}
    with pytest.raises(ConfigError, match=f"^{name} is "):
        drawn_trace(parsed_lengths("lognormal:median=5"), **sizes)  # type: ignore[arg-type]
