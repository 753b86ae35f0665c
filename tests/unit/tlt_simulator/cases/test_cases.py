"""The shipped cases: what was published is near what is simulated, with one calibration."""

from statistics import fmean

import pytest

from tlt_common.domain.arm import chain
from tlt_common.errors import ConfigError
from tlt_simulator.cases import CASES, Measure, case
from tlt_simulator.cases.bytedance import bytedance, needed
from tlt_simulator.cases.nemo_rl import QUALITIES
from tlt_simulator.costs.roofline import calculated
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


def test_what_was_measured_with_a_fixed_drafter_is_near_and_what_was_projected_is_less() -> None:
    rows = case("nemo-rl").rows
    found = {row.label: row.found(compare(row.trace(4), row.prepared())) / row.published - 1.0 for row in rows}
    measured = [error for label, error in found.items() if "projected" not in label]
    assert fmean(map(abs, measured)) < 0.15, found
    assert max(map(abs, measured)) < 0.25, found
    assert all(-0.5 < error < 0.0 for label, error in found.items() if "projected" in label), found


def test_plain_rollouts_of_assumed_lengths_take_as_long_as_published() -> None:
    rows = {row.label: row for row in case("nemo-rl").rows}
    for label, seconds in (("8b from its base model, rollouts", 100.0), ("8b, a thinking model, rollouts", 133.6)):
        run = simulate(rows[label].trace(8).steps, rows[label].scenario.plain)
        assert run.rollout_s / 8 == pytest.approx(seconds, rel=0.05)


@pytest.mark.parametrize(("drafts", "tokens"), QUALITIES)
def test_a_fixed_drafter_keeps_as_many_tokens_as_published(drafts: int, tokens: float) -> None:
    costs = calculated("b200", "7b")
    assert 1.0 + costs.accepted(chain(drafts), QUALITIES[drafts, tokens]) == pytest.approx(tokens, rel=0.002)


@pytest.mark.parametrize(
    ("of_three", "drafts", "tokens"), [(3.32, 5, 4.35), (3.32, 7, 5.06), (2.77, 5, 3.23), (2.77, 7, 3.48)]
)
def test_more_drafts_of_the_same_drafter_keep_as_many_tokens_as_published(
    of_three: float, drafts: int, tokens: float
) -> None:
    costs = calculated("b200", "7b")
    assert 1.0 + costs.accepted(chain(drafts), QUALITIES[3, of_three]) == pytest.approx(tokens, rel=0.02)


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
    assert tuple(CASES) == ("paper", "nemo-rl", "bytedance-32b")
    with pytest.raises(ConfigError, match="accepted: paper, nemo-rl, bytedance-32b"):
        case("papers")
