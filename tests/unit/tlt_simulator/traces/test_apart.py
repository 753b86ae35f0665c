"""Logs are read in a process that may die."""

from pathlib import Path

import pytest

from tests.unit.tlt_simulator.traces.written import SAMPLES, json_lines, torch_saved
from tlt_common.errors import ConfigError
from tlt_simulator.traces import apart, read_apart, read_trace


@pytest.mark.parametrize("name", ["slime", "lengths/lengths.csv", "prime-rl"])
def test_a_log_is_read_as_in_this_process(name: str) -> None:
    assert read_apart(SAMPLES / name) == read_trace(SAMPLES / name)


def test_a_refusal_is_that_of_the_reader(tmp_path: Path) -> None:
    path = json_lines(tmp_path / "log.jsonl", {"prompt": 1, "tokens": -1})
    with pytest.raises(ConfigError, match=r"log\.jsonl:1: tokens is -1; accepted: a whole number") as refusal:
        read_apart(path)
    assert refusal.value.field == "trace"
    with pytest.raises(ConfigError, match="cap is 0"):
        read_apart(path, cap=0)


def test_how_many_were_found_is_told_meanwhile(tmp_path: Path) -> None:
    rows = [{"prompt": place, "tokens": 5} for place in range(2 * apart.TOLD_EVERY + 5)]
    told = list[int]()
    assert read_apart(json_lines(tmp_path / "log.jsonl", *rows), told.append).responses == len(rows)
    assert told == [apart.TOLD_EVERY, 2 * apart.TOLD_EVERY]


def test_a_reader_that_dies_is_a_refusal(tmp_path: Path) -> None:
    doubled: list[object] = []
    for _ in range(200):
        doubled = [doubled, doubled]
    sample = {"tokens": [1], "response_length": 1, "status": "completed", "prompt": doubled}
    path = torch_saved(tmp_path / "0.pt", {"rollout_id": 0, "samples": [sample]})
    with pytest.raises(ConfigError, match=r"samples\[0\]: prompt has too many values"):
        read_apart(path)


def test_a_reader_that_is_killed_is_a_refusal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apart, "_size_of", lambda _: -(apart.ROOM_BYTES // apart.COPIES))
    with pytest.raises(ConfigError, match="takes more memory or time to read than a log of its size may"):
        read_apart(json_lines(tmp_path / "log.jsonl", *({"prompt": n, "tokens": 5} for n in range(50_000))))
