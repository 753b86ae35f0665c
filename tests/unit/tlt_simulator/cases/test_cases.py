"""The shipped cases: what was published is near what is simulated, with one calibration."""

from statistics import fmean

import pytest

from tlt_common.errors import ConfigError
from tlt_simulator.cases import CASES, Measure, case
from tlt_simulator.cases.bytedance import bytedance, needed
from tlt_simulator.run import compare, simulate


def test_published_speedups_are_near_with_one_calibration_for_all() -> None:
    errors = dict[str, float]()
    for row in case("paper").rows:
        found = row.found(compare(row.trace(2), row.prepared()))
        errors[row.label] = abs(found / row.published - 1.0)
    assert fmean(errors.values()) < 0.12, errors
    assert max(errors.values()) < 0.25, errors


def test_more_nodes_gain_more_as_published() -> None:
    rows = [row for row in case("paper").rows if row.measure is Measure.STEP and row.label.startswith("7b")][:3]
    found = [row.found(compare(row.trace(2), row.prepared())) for row in rows]
    assert found == sorted(found)


def test_the_long_run_takes_as_long_as_published() -> None:
    row = bytedance().rows[0]
    steps = row.trace(1).steps
    plain = simulate(steps, row.scenario.plain)
    assert plain.seconds / len(steps) * row.steps / 86_400 == pytest.approx(row.published, rel=0.02)
    assert plain.rollout_s / plain.seconds == pytest.approx(0.85, abs=0.02)


def test_what_a_shorter_run_needs() -> None:
    assert needed(5.5) == pytest.approx(2.43, abs=0.005)
    assert needed(4.0) == pytest.approx(3.98, abs=0.01)


def test_an_unknown_case_is_refused_by_name() -> None:
    assert tuple(CASES) == ("paper", "bytedance-32b")
    with pytest.raises(ConfigError, match="accepted: paper, bytedance-32b"):
        case("papers")
