"""No input does harm: `make unit` tries a few inputs per target, always the same; `make fuzz` tries many."""

import warnings
from pathlib import Path
from typing import Any

import psutil
import pytest
from hypothesis import HealthCheck, given, note, seed, settings
from hypothesis.errors import HypothesisWarning

from tests.fuzz import targets
from tests.fuzz.quiet import quiet
from tests.fuzz.target import Target
from tests.fuzz.targets.chart import is_defect

MAX_SHOWN = 2000
"""Characters of a harmful input that are shown."""
MAX_GROWTH_BYTES = 64 * 2**20
"""Growth of resident memory, after the first half of the inputs, above which a target leaks."""


@pytest.mark.parametrize("target", targets.discovered(), ids=lambda target: target.name)
def test_no_input_does_harm(target: Target, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    if reason := target.skipped():
        pytest.skip(reason)
    count = max(3, round(request.config.getoption("--inputs") * target.weight))
    tried = middle_bytes = 0

    with quiet(), target.open(tmp_path) as subject, warnings.catch_warnings():
        warnings.simplefilter("ignore", HypothesisWarning)  # of the size of inputs

        @seed(request.config.getoption("--seed"))
        @settings(max_examples=count, database=None, suppress_health_check=list(HealthCheck))
        @given(subject.inputs)
        def attempt(value: Any) -> None:
            nonlocal tried, middle_bytes
            tried += 1
            if tried == count // 2:
                middle_bytes = resident_bytes()
            note(subject.show(value)[:MAX_SHOWN])
            subject.feed(value)

        attempt()
        assert tried >= count // 2
        assert resident_bytes() - middle_bytes < MAX_GROWTH_BYTES


def resident_bytes() -> int:
    return int(psutil.Process().memory_info().rss)


def test_a_refusal_of_chart_values_is_told_from_a_defect_of_a_template() -> None:
    refusal = "Error: values don't meet the specifications of the schema(s)"
    assert not is_defect(f"{refusal}: - at '/worker/runtimeClassName': got boolean, want string")
    assert is_defect("Error: template: x.yaml:1: runtime error: index out of range")
    assert is_defect("panic: x")
