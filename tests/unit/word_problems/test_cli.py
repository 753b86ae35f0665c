"""`tlt demo-real` refuses in one line."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tlt_common.errors import ConfigError
from tlt_local.models import published
from word_problems.cli import app
from word_problems.task import draw_problems


def test_without_the_model_nothing_is_started(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(published, "home", lambda: tmp_path)
    done = CliRunner().invoke(app, ["--drafter", "none", "--out", str(tmp_path / "out")])
    assert isinstance(done.exception, ConfigError)
    assert "`tlt models get smollm2`" in done.exception.message
    assert not (tmp_path / "out").exists()


def test_help_names_the_command_that_fetches_the_model() -> None:
    assert "tlt models get smollm2" in CliRunner().invoke(app, ["--help"]).stdout


def test_prompts_are_printed_for_a_collection() -> None:
    lines = CliRunner().invoke(app, ["prompts", "--count", "3", "--seed", "4"]).stdout.splitlines()
    assert [json.loads(line)["messages"][0]["content"] for line in lines] == [
        problem.prompt for problem in draw_problems(3, seed=4)
    ]
