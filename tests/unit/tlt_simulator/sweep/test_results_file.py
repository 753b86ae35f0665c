import json
from pathlib import Path

import pytest

from tests.unit.tlt_simulator.comparisons import outcome, scenario, trace
from tlt_common.errors import ConfigError
from tlt_simulator.sweep.keys import changed
from tlt_simulator.sweep.results_file import ResultsFile, SweptScenario

SWEPT = SweptScenario(scenario=scenario(), trace=trace())
CHANGES = {"spot.max_trainers": "2", "gateway.pack_running": "2"}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "results.jsonl"
    with ResultsFile(path, SWEPT, resume=False) as results:
        results.put(CHANGES, 0, outcome(50))
        results.put(CHANGES, 1, outcome(51))
    return path


def test_results_are_read_again(file: Path) -> None:
    with ResultsFile(file, SWEPT, resume=True) as results:
        assert len(results) == 2
        assert results.get(dict(reversed(CHANGES.items())), 1) == outcome(51)
        assert results.get(CHANGES, 2) is None
        assert results.get({}, 0) is None


def test_a_file_is_not_overwritten(file: Path) -> None:
    with pytest.raises(ConfigError, match="exists; accepted: a new file, or --resume"):
        ResultsFile(file, SWEPT, resume=False)


def test_resuming_what_does_not_exist_begins(tmp_path: Path) -> None:
    with ResultsFile(tmp_path / "new.jsonl", SWEPT, resume=True) as results:
        assert len(results) == 0


@pytest.mark.parametrize("kept", [1, 40])
def test_a_cut_last_line_is_left_out_and_removed(file: Path, kept: int) -> None:
    whole = file.read_bytes()
    lines = whole.splitlines(keepends=True)
    file.write_bytes(b"".join(lines[:-1]) + lines[-1][:kept])
    with ResultsFile(file, SWEPT, resume=True) as results:
        assert results.cut
        assert len(results) == 1
        results.put(CHANGES, 1, outcome(51))
    assert file.read_bytes() == whole


def test_a_cut_first_line_begins_again(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    path.write_text('{"format":"tlt-swe')
    with ResultsFile(path, SWEPT, resume=True) as results:
        assert len(results) == 0
    with ResultsFile(path, SWEPT, resume=True) as results:
        assert not results.cut


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (SweptScenario(scenario=changed(scenario(), {"costs.ageing": "0.5"}), trace=trace()), "scenario.costs.ageing"),
        (SweptScenario(scenario=scenario(5), trace=trace()), "scenario.fleet.workers is 4 there, 5 here"),
        (SweptScenario(scenario=scenario(name="other"), trace=trace()), 'name is "made up" there, "other" here'),
        (SweptScenario(scenario=scenario(), trace=trace(seed=1)), "its trace was made-up.jsonl"),
    ],
)
def test_the_file_of_another_sweep_is_refused_by_name(file: Path, other: SweptScenario, said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        ResultsFile(file, other, resume=True)
    assert f"{file} is of another sweep" in str(refused.value)
    assert said in str(refused.value)


def test_another_seed_is_the_same_sweep(file: Path) -> None:
    with ResultsFile(file, SweptScenario(scenario=scenario(seed=9), trace=trace()), resume=True) as results:
        assert len(results) == 2


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("nothing", "is not JSON"),
        ("[1]", "is not an object"),
        ('{"changes":{},"seed":0}', "is not a result"),
        ('{"changes":[],"seed":0,"without":{},"with_suite":{}}', "is not a result"),
        ('{"changes":{},"seed":"x","without":{},"with_suite":{}}', "is not a result"),
    ],
)
def test_an_invalid_line_is_refused_with_its_number(file: Path, line: str, said: str) -> None:
    lines = file.read_text().splitlines()
    file.write_text("\n".join([lines[0], line, lines[2]]) + "\n")
    with pytest.raises(ConfigError) as refused:
        ResultsFile(file, SWEPT, resume=True)
    assert f"{file}:2 {said}" in str(refused.value)


def test_a_file_of_something_else_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    path.write_text(json.dumps({"format": "tlt-journal/1"}) + "\n")
    with pytest.raises(ConfigError, match=r"results\.jsonl:1 has the format 'tlt-journal/1'; accepted: tlt-sweep/1"):
        ResultsFile(path, SWEPT, resume=True)


def test_two_sweeps_do_not_write_to_one_file(file: Path) -> None:
    with ResultsFile(file, SWEPT, resume=True), pytest.raises(ConfigError, match="another sweep writes to it"):
        ResultsFile(file, SWEPT, resume=True)


def test_a_directory_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"--results .*missing/results\.jsonl: No such file"):
        ResultsFile(tmp_path / "missing" / "results.jsonl", SWEPT, resume=False)
