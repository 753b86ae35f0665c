"""`tlt journal check`."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.unit.tlt_common.journal.written import BEGAN_S, made_header, made_response, write_file
from tlt_common.errors import ConfigError
from tlt_common.journal.coordinator_lines import TrainedLine
from tlt_common.journal.gateway_lines import UpdateLine
from tlt_local.journal import app


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    update = UpdateLine(at=BEGAN_S + 1800, version=5, began=BEGAN_S + 1798, done=True, workers=2)
    write_file(tmp_path, 1, made_header(), [made_response(), update], end=b'{"ki')
    trained = TrainedLine(
        at=BEGAN_S + 60, worker="worker-0", seconds=12.5, steps=9, tokens=2304, passes=1.5, gain=None, load_s=0.0
    )
    write_file(tmp_path, 1, made_header(service="coordinator", id="coordinator"), [trained])
    return tmp_path


def test_the_contents_of_all_journals_are_printed(directory: Path) -> None:
    result = CliRunner().invoke(app, ["check", str(directory)])
    assert result.exit_code == 0, result.output
    for part in (
        "coordinator coordinator\n",
        "trained: 12.5 device-seconds",
        "gateway gateway-0\n",
        "0.50 hours from 2026-01-01 00:00:00 UTC",
        "1 response, 1 update",
        "workers: 2",
        "responses: 1 to 1 prompts, 20 tokens; steps: 1; rounds: 0",
        "000001.jsonl:4, which was skipped",
    ):
        assert part in result.output


def test_contents_are_printed_as_json(directory: Path) -> None:
    result = CliRunner().invoke(app, ["check", str(directory), "--json"])
    coordinator, gateway = map(json.loads, result.output.splitlines())
    assert (coordinator["service"], coordinator["trained_s"]) == ("coordinator", 12.5)
    assert (gateway["lines"], gateway["steps"]) == ({"response": 1, "update": 1}, 1)


def test_a_journal_that_is_not_valid_is_refused_by_place(directory: Path) -> None:
    path = write_file(directory, 2, made_header(part=2), [made_response(at=BEGAN_S)])
    result = CliRunner().invoke(app, ["check", str(directory)])
    assert isinstance(result.exception, ConfigError)
    path.unlink()
    assert str(directory) in result.exception.message
