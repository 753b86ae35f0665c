"""A journal of `tlt demo --quick`, recorded on two cores that other programs used, too: its own ratio is predicted."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tlt_common.errors import ConfigError
from tlt_simulator.cli import app
from tlt_simulator.fit.held_out import held_out
from tlt_simulator.traces import read_trace

JOURNAL = Path(__file__).parents[1] / "fit/demo_journal"
KEYS = ["--set", "publish.first_gain=0.6", "--set", "publish.every_tokens=16384"]
"""With which the demo runs."""


def test_both_sides_of_a_step_are_read_apart() -> None:
    trace = read_trace(JOURNAL)
    assert [len(step.samples) for step in trace.steps] == [24, 24, 24]
    assert [round(step.suite_rollout_s or 0, 1) for step in trace.steps] == [6.3, 23.9, 19.6]
    assert [round(step.rollout_s or 0, 1) for step in trace.steps] == [24.1, 47.2, 78.3]
    assert [None if step.learning_s is None else round(step.learning_s, 1) for step in trace.steps] == [5.3, 12.0, None]


def test_a_journal_alone_predicts_its_own_ratio() -> None:
    done = CliRunner().invoke(app, ["--trace", str(JOURNAL), "--quick", "--json", "-", *KEYS])
    assert done.exit_code == 0, done.exception
    found = json.loads(done.stdout)
    without, suite = found["measured"], found["measured_with"]
    measured = without["rollout_s"] / suite["rollout_s"]
    assert measured == pytest.approx(3.0, abs=0.01)
    assert found["rollout_speedup"] == pytest.approx(measured, rel=0.1)
    ends = found["interval"]["rollout_speedup"]
    assert ends["low"] < measured < ends["high"]


def test_a_short_comparison_is_held_out_by_half() -> None:
    found = held_out(JOURNAL)
    assert [(step.number, step.with_suite) for step in found.steps] == [(3, True), (3, False)]


def test_the_machines_of_a_journal_are_its_own_unless_others_are_named() -> None:
    refused = CliRunner().invoke(app, ["--trace", str(JOURNAL), "--slots", "4"]).exception
    assert isinstance(refused, ConfigError)
    assert "--slots: the machines and costs of --trace" in refused.message
    refused = (
        CliRunner()
        .invoke(app, ["--trace", str(JOURNAL), "--card", "h100", "--gpus", "2", "--drafter", "none"])
        .exception
    )
    assert isinstance(refused, ConfigError)
    assert refused.field == "model"
