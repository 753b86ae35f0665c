"""The steps of a recorded run."""

from pathlib import Path

import pytest

from tests.unit.tlt_simulator.fit.journals import LEARN_S, ROLLOUT_S, STEPS, recording
from tlt_common.errors import ConfigError
from tlt_common.journal.coordinator_lines import LendingLine
from tlt_common.journal.gateway_lines import ResponseLine
from tlt_common.journal.line import DroppedLine
from tlt_simulator.fit.recorded import recorded_run
from tlt_simulator.fit.steps import recorded_steps, trace_of


def test_a_comparison_has_two_sides_of_the_same_prompts(tmp_path: Path) -> None:
    steps = recorded_steps(recorded_run(recording().write(tmp_path)))
    assert [(step.number, step.with_suite) for step in steps[:4]] == [(1, True), (2, True), (2, False), (3, True)]
    on, off = steps[1], steps[2]
    assert [line.group for line in on.responses] == [line.group for line in off.responses]
    assert (on.rollout_s, off.rollout_s) == pytest.approx((ROLLOUT_S, 2.5 * ROLLOUT_S))
    assert on.learn_s == off.learn_s
    assert on.learn_s is not None
    assert on.learn_s >= LEARN_S
    assert on.step_s == pytest.approx(on.rollout_s + on.learn_s + 0.5)


def test_without_a_coordinator_all_steps_are_with_the_suite(tmp_path: Path) -> None:
    steps = recorded_steps(recorded_run(recording().without(LendingLine).write(tmp_path)))
    assert [step.number for step in steps] == list(range(1, STEPS + 1))
    assert all(step.with_suite for step in steps)


def test_a_trace_keeps_lengths_groups_and_times(tmp_path: Path) -> None:
    steps = [step for step in recorded_steps(recorded_run(recording().write(tmp_path))) if step.with_suite]
    trace = trace_of(steps, "journal")
    first = trace.steps[0]
    assert [sample.tokens for sample in first.samples] == [100 * number for number in range(1, 9)]
    assert [sample.prompt for sample in first.samples] == [0, 0, 1, 1, 2, 2, 3, 3]
    assert trace.cap == 2048
    assert first.suite_rollout_s == pytest.approx(ROLLOUT_S)
    assert first.rollout_s is None
    assert trace.steps[1].samples[0].prompt == 4


def test_only_the_last_run_counts(tmp_path: Path) -> None:
    made = recording()
    made.write(tmp_path)
    again = (tmp_path / "gateway-gateway-000001.jsonl").read_bytes()
    later = again.replace(b'"began":1790000000.0', b'"began":1790009000.0', 1).splitlines(keepends=True)
    (tmp_path / "gateway-gateway-000002.jsonl").write_bytes(later[0])
    with pytest.raises(ConfigError, match="no responses in its last run"):
        recorded_run(tmp_path)


def test_a_journal_with_gaps_is_refused(tmp_path: Path) -> None:
    made = recording()
    dropped = type(made)(gateway=(*made.gateway, DroppedLine(at=made.gateway[-1].at, lines=7)), coordinator=())
    with pytest.raises(ConfigError, match="dropped 7 lines"):
        recorded_run(dropped.write(tmp_path))


def test_what_was_not_over_by_a_time_is_left_out(tmp_path: Path) -> None:
    run = recorded_run(recording().write(tmp_path))
    early = run.until(run.updates[0].at)
    assert len(early.updates) == 1
    assert len(early.responses) == 8
    assert all(isinstance(line, ResponseLine) and line.at <= run.updates[0].at for line in early.responses)
