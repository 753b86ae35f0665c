"""Every target of the fuzzer with a few inputs, always the same; and the fuzzer itself."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from tlt_bench.campaign.fuzz.all_targets import discovered, named
from tlt_bench.campaign.fuzz.hostile import mutated
from tlt_bench.campaign.fuzz.search import search
from tlt_bench.campaign.fuzz.target import HarmError, Subject, Target
from tlt_bench.campaign.fuzz.targets.chart import is_defect
from tlt_common.errors import ConfigError

INPUTS = 120
"""For a target of weight 1; the others get their share, since their inputs take longer or matter more."""
INTEGERS = st.integers()
TARGETS = [target for target in discovered() if not target.skipped()]


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_no_input_does_harm(target: Target) -> None:
    count = max(3, round(INPUTS * target.weight))
    found = search(target, count, first_seed=0, inputs_per_round=count)
    assert found.harm == ()
    assert found.tried >= count // 2


def looks_for(feed: Callable[[Any], object], inputs: SearchStrategy[Any] = INTEGERS) -> Target:
    @contextmanager
    def opened(_: Path) -> Iterator[Subject]:
        yield Subject(inputs=inputs, feed=feed)

    return Target(name="tested", open=opened)


def test_a_harmful_input_is_reduced_and_shown_with_its_seed() -> None:
    def feed(value: int) -> None:
        if value > 1000:
            raise IndexError("out of range")

    found = search(looks_for(feed), 200, first_seed=7, inputs_per_round=200)
    assert found.harm == ("tested: IndexError: out of range; seed 7; input: 1001",)


def test_each_kind_of_harm_is_reported_once_and_the_search_goes_on_after_it() -> None:
    def feed(value: int) -> None:
        if value > 1000:
            raise HarmError("large")
        if value < -1000:
            raise HarmError("small")

    found = search(looks_for(feed), 2000, first_seed=0, inputs_per_round=100)
    assert len(found.harm) == len(set(found.harm)) <= 2
    assert found.tried > 100


def test_a_search_ends_after_one_round_when_its_time_is_over() -> None:
    found = search(looks_for(lambda _: None), 100, first_seed=0, may_go_on=lambda: False, inputs_per_round=10)
    assert found.tried == 10


def test_mutations_of_nothing_are_bytes_and_unknown_targets_are_named() -> None:
    assert search(looks_for(bytes, mutated([])), 50, first_seed=0).harm == ()
    with pytest.raises(ConfigError, match=r"unknown target 'nothing'; accepted: .*frames.common"):
        named("nothing")


def test_a_refusal_of_chart_values_is_told_from_a_defect_of_a_template() -> None:
    refusal = "Error: values don't meet the specifications of the schema(s)"
    assert not is_defect(f"{refusal}: - at '/worker/runtimeClassName': got boolean, want string")
    assert is_defect("Error: template: x.yaml:1: runtime error: index out of range")
    assert is_defect("panic: x")
