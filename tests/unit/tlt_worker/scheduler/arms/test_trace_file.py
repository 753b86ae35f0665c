"""Rounds as engines write them down."""

from contextlib import closing
from pathlib import Path

import pytest

from tests.unit.tlt_common.bandit.rounds import make_round
from tlt_common.bandit.round_trace import parsed, parsed_header
from tlt_common.domain.arm import chain
from tlt_common.errors import ConfigError
from tlt_worker.engine.launch import require_writable
from tlt_worker.scheduler.arms.trace_file import TraceFile


def test_rounds_come_back_from_the_file(tmp_path: Path) -> None:
    path = tmp_path / "rounds.jsonl"
    played = [make_round(at_s=float(i), accepted=(i, 0)) for i in range(4)]
    with closing(TraceFile(path, max_bytes=2**20)) as trace:
        for each in played:
            trace.write(each)
    first, *lines = path.read_text().splitlines()
    parsed_header("line 1", first)
    assert [parsed("a line", line) for line in lines] == played


def test_two_files_never_take_more_than_they_may(tmp_path: Path) -> None:
    path = tmp_path / "rounds.jsonl"
    with closing(TraceFile(path, max_bytes=4000)) as trace:
        for i in range(200):
            trace.write(make_round(at_s=float(i), arm=chain(3)))
            trace.flush()
            assert sum(file.stat().st_size for file in tmp_path.iterdir()) <= 4000
    before, now = (
        [parsed("a line", line).at_s for line in file.read_text().splitlines()[1:]]
        for file in (path.with_name("rounds.jsonl.1"), path)
    )
    assert [*before, *now] == [float(i) for i in range(200 - len(before) - len(now), 200)]


@pytest.mark.parametrize("name", ["", "missing/rounds.jsonl"])
def test_a_path_that_cannot_be_written_is_refused_and_stops_nothing(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match="existing directory"):
        require_writable(tmp_path / name)
    trace = TraceFile(tmp_path / name, max_bytes=4000)
    trace.write(make_round())
    trace.flush()
