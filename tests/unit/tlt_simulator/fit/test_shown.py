"""What `tlt simulate fit` prints."""

import json
from pathlib import Path

import pytest

from tests.unit.tlt_simulator.fit.journals import recording
from tlt_simulator.fit.fitting import Fitted
from tlt_simulator.fit.held_out import HeldOut, held_out
from tlt_simulator.fit.shown import fitted_lines, fitted_values, held_out_lines, held_out_values


@pytest.fixture
def found(tmp_path: Path) -> HeldOut:
    return held_out(recording().write(tmp_path))


@pytest.fixture
def fitted(found: HeldOut) -> Fitted:
    return found.fitted


def test_every_number_is_shown_with_interval_source_and_what_it_is_of(fitted: Fitted) -> None:
    shown = list(fitted_lines(fitted, ("workers: up to 64; fitted to 2 at most",)))
    for name, figure in fitted.rows:
        (line,) = (line for line in shown if line.startswith(f"{name} "))
        assert str(figure.source) in line
        assert figure.of in line
        assert f" {figure.value:.4g} " in line
    assert "Extrapolated: workers: up to 64; fitted to 2 at most." in shown
    assert f"Not in the journal: {', '.join(fitted.assumed)}." in shown


def test_json_says_the_same(fitted: Fitted, found: HeldOut) -> None:
    values = json.loads(json.dumps({**fitted_values(fitted, ("x",)), **held_out_values(found)}))
    assert values["costs"]["learn_s"]["source"] == "fitted"
    assert values["extrapolated"] == ["x"]
    assert values["step_time_error"] == found.step_time_error
    assert len(values["steps"]) == len(found.steps)


def test_predictions_stand_beside_what_was_measured(found: HeldOut) -> None:
    shown = list(held_out_lines(found))
    assert len(shown) == len(found.steps) + 4
    assert shown[1].split()[:2] == ["6", "with"]
    assert shown[2].split()[:2] == ["6", "without"]
    assert shown[-2] == f"step_time_error {found.step_time_error:.3f}"
    assert shown[-1] == f"ratio_error {found.ratio_error:.3f}"
