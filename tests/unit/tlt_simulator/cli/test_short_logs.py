"""Logs whose context is shorter than what an arm verifies."""

from pathlib import Path

from tests.unit.tlt_simulator.traces.written import json_lines
from tlt_simulator.cli.inputs import Inputs
from tlt_simulator.cli.prepared import prepared
from tlt_worker.engine_config import CUDA_ARMS


def test_arms_that_do_not_fit_a_logs_context_are_left_out(tmp_path: Path) -> None:
    rows = [{"step": 1, "prompt": 1, "tokens": tokens, "prompt_tokens": 13} for tokens in (5, 7)]
    inputs = Inputs(trace=json_lines(tmp_path / "log.jsonl", *rows), card="h100", gpus=1, model="7b", drafter="none")
    (run,) = prepared(inputs)
    names = [arm.name for arm in run.scenario.arms]
    assert "tree-4x4-16" in names
    assert "tree-6x4-32" not in names
    assert run.scenario.memory is not None
    assert "more tokens than the context of this log, 20: tree-6x4-32" in run.scenario.memory.warnings[0]


def test_all_arms_fit_a_log_of_usual_length(tmp_path: Path) -> None:
    rows = [{"step": 1, "prompt": 1, "tokens": tokens, "prompt_tokens": 13} for tokens in (500, 700)]
    (run,) = prepared(
        Inputs(trace=json_lines(tmp_path / "log.jsonl", *rows), card="h100", gpus=1, model="7b", drafter="none")
    )
    assert run.scenario.arms == CUDA_ARMS
