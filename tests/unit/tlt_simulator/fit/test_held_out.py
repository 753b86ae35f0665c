"""Predictions of steps that were not fitted to."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.tlt_simulator.fit.journals import STEPS, recording
from tlt_common.errors import ConfigError
from tlt_common.journal.coordinator_lines import LendingLine
from tlt_common.journal.gateway_lines import UpdateLine
from tlt_simulator.fit.held_out import HeldOut, HeldOutStep, held_out


def test_the_steps_after_the_middle_are_predicted_on_both_sides(tmp_path: Path) -> None:
    found = held_out(recording().write(tmp_path))
    predicted = [(step.number, step.with_suite) for step in found.steps]
    later = range(6, STEPS + 1)
    assert predicted == [*((number, True) for number in later), *((number, False) for number in later)]
    assert all(step.predicted_s > 0.0 for step in found.steps)
    assert found.fitted.costs.round_token_s.value > 0.0


def test_what_is_measured_after_the_middle_changes_no_prediction(tmp_path: Path) -> None:
    made, shift_s = recording(), 1000.0
    began_s = [line.began for line in made.gateway if isinstance(line, UpdateLine)][-2]
    slower = replace(
        made,
        gateway=tuple(
            replace(line, at=line.at + shift_s, began=line.began + shift_s)
            if isinstance(line, UpdateLine) and line.began > began_s
            else line
            for line in made.gateway
        ),
    )
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    before, after = held_out(made.write(tmp_path / "a")), held_out(slower.write(tmp_path / "b"))
    assert [step.predicted_s for step in before.steps] == [step.predicted_s for step in after.steps]
    assert after.steps[2].measured_s == pytest.approx(before.steps[2].measured_s + shift_s)


def test_errors_are_relative_and_the_ratio_is_that_of_the_sums(tmp_path: Path) -> None:
    fitted = held_out(recording().write(tmp_path)).fitted
    steps = [
        HeldOutStep(number=1, with_suite=True, measured_s=10.0, predicted_s=11.0),
        HeldOutStep(number=2, with_suite=True, measured_s=20.0, predicted_s=19.0),
        HeldOutStep(number=3, with_suite=True, measured_s=99.0, predicted_s=99.0),  # without its other side
        HeldOutStep(number=1, with_suite=False, measured_s=30.0, predicted_s=30.0),
        HeldOutStep(number=2, with_suite=False, measured_s=30.0, predicted_s=36.0),
    ]
    found = HeldOut(fitted=fitted, steps=tuple(steps))
    assert found.step_time_error == pytest.approx((0.1 + 0.05 + 0.0 + 0.0 + 0.2) / 5)
    assert (found.measured_ratio, found.predicted_ratio) == pytest.approx((2.0, 2.2))
    assert found.ratio_error == pytest.approx(0.1)


def test_a_run_without_two_sides_is_refused_with_how_many_more_steps_are_needed(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"0 steps with and without the suite; needed: 2 more"):
        held_out(recording().without(LendingLine).write(tmp_path))
