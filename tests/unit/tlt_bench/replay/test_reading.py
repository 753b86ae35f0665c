"""Traces are read from good files, and bad ones are refused."""

import gzip
from pathlib import Path

import pytest

from tests.unit.tlt_bench.replay.worlds import made_world
from tlt_bench.replay.reading import read_trace
from tlt_common.bandit.round_trace import header, line_of
from tlt_common.errors import ConfigError


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "rounds.jsonl"
    rounds = made_world(rounds_each=20).rounds
    path.write_text("\n".join([header(device="cpu"), *map(line_of, rounds)]))
    return path


def test_a_packed_trace_is_unpacked(trace: Path) -> None:
    packed = trace.with_suffix(".jsonl.gz")
    packed.write_bytes(gzip.compress(trace.read_bytes()))
    assert read_trace(packed) == read_trace(trace)
    assert read_trace(packed).about["device"] == "cpu"


def test_a_line_that_is_no_round_is_named(trace: Path) -> None:
    lines = trace.read_text().splitlines()
    lines[6] = lines[6].replace('"arm":"', '"arm":"great-')
    trace.write_text("\n".join(lines))
    with pytest.raises(ConfigError, match=rf"{trace}:7: arm: .* accepted"):
        read_trace(trace)


def test_rounds_out_of_order_are_refused(trace: Path) -> None:
    first, one, two, *rest = trace.read_text().splitlines()
    trace.write_text("\n".join([first, two, one, *rest]))
    with pytest.raises(ConfigError, match=rf"{trace}:3: at_s"):
        read_trace(trace)


@pytest.mark.parametrize("content", [b"", b"\x00\xff\xfe", b'{"format": "tlt-rounds/1"}\n', b"hello\nworld\n"])
def test_another_file_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "rounds.jsonl"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match="accepted"):
        read_trace(path)


def test_a_missing_or_broken_archive_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        read_trace(tmp_path / "missing.jsonl")
    broken = tmp_path / "broken.jsonl.gz"
    broken.write_bytes(gzip.compress(b"x" * 1000)[:20])
    with pytest.raises(ConfigError, match="cannot be read"):
        read_trace(broken)
