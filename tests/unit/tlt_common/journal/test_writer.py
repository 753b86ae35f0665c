"""Journals on disk: bounded, whole after crashes, and without effect on their service when the disk is full."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import structlog
from prometheus_client import REGISTRY

from tests.fakes.full_disk import full_disk
from tests.unit.tlt_common.journal.written import BEGAN_S
from tlt_common import __version__
from tlt_common.errors import ConfigError
from tlt_common.journal.files import file_of
from tlt_common.journal.format import Header
from tlt_common.journal.gateway_lines import PauseLine
from tlt_common.journal.line import DroppedLine, Line
from tlt_common.journal.reader import journals_in
from tlt_common.journal.writer import FILES, MAX_WAITING, JournalWriter

MAX_BYTES = 16 * 2**10


def opened(
    directory: Path,
    *,
    began_s: float = BEGAN_S,
    max_bytes: int = MAX_BYTES,
    prepare: Callable[[Path], object] = lambda _: None,
) -> JournalWriter:
    return JournalWriter(
        directory, service="gateway", service_id="g", began_s=began_s, max_bytes=max_bytes, prepare=prepare
    )


def lines_in(directory: Path) -> list[Header | Line]:
    (journal,) = journals_in(directory)
    return list(journal.lines())


def pauses(count: int, *, after_s: float = 0.0) -> Iterator[PauseLine]:
    return (PauseLine(at=BEGAN_S + after_s + place / 100, paused=True) for place in range(count))


def figure(name: str) -> float:
    return REGISTRY.get_sample_value(name) or 0.0


def test_what_is_put_is_on_disk_when_the_service_ends(tmp_path: Path) -> None:
    with opened(tmp_path / "new" / "journal") as journal:
        for line in pauses(3):
            journal.put(line)
    header, *found = lines_in(tmp_path / "new" / "journal")
    assert header == Header(service="gateway", id="g", began=BEGAN_S, part=1, suite=__version__)
    assert found == list(pauses(3))


def test_nothing_is_written_for_a_run_without_lines(tmp_path: Path) -> None:
    with opened(tmp_path):
        pass
    assert not list(tmp_path.iterdir())


def test_the_size_is_bounded_and_the_newest_lines_stay(tmp_path: Path) -> None:
    other = tmp_path / "gateway-other-000001.jsonl"
    other.write_bytes(b"x" * MAX_BYTES)
    journal = opened(tmp_path)
    for line in pauses(2000):
        journal.put(line)
        journal.flush()
        own = [path for path in tmp_path.iterdir() if path != other]
        assert sum(path.stat().st_size for path in own) <= MAX_BYTES
    assert len(own) >= FILES - 1
    other.unlink()
    found = lines_in(tmp_path)
    assert found[1:] == list(pauses(2000))[-len(found) + 1 :]
    assert len(found) > 200


def test_a_run_continues_the_numbers_and_the_limit_of_earlier_ones(tmp_path: Path) -> None:
    for run in range(40):
        journal = opened(tmp_path, began_s=BEGAN_S + 100 * run)
        for line in pauses(15, after_s=100 * run):
            journal.put(line)
        journal.flush()
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= MAX_BYTES
    headers = [line for line in lines_in(tmp_path) if isinstance(line, Header)]
    assert [header.began for header in headers] == [BEGAN_S + 100 * run for run in range(40 - len(headers), 40)]


@pytest.mark.parametrize("left", [b'{"kind":"pause","a', b""])
def test_what_a_crash_has_left_is_mended_by_the_next_run(tmp_path: Path, left: bytes) -> None:
    journal = opened(tmp_path)
    journal.put(next(pauses(1)))
    journal.flush()
    last = file_of(tmp_path, "gateway", "g", 1).path if left else file_of(tmp_path, "gateway", "g", 2).path
    last.write_bytes((last.read_bytes() if last.exists() else b"") + left)
    again = opened(tmp_path, began_s=BEGAN_S + 60)
    again.put(next(pauses(1, after_s=60)))
    again.flush()
    kinds = [type(line) for line in lines_in(tmp_path)]
    assert kinds == [Header, PauseLine, Header, PauseLine]


def test_a_full_disk_ends_the_journal_once_and_what_was_written_stays(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    journal.put(next(pauses(1)))
    journal.flush()
    size = file_of(tmp_path, "gateway", "g", 1).path.stat().st_size
    with structlog.testing.capture_logs() as logs:
        journal.put(next(pauses(1, after_s=1)))
        with full_disk(size + 10):
            journal.flush()
        for line in pauses(3, after_s=2):
            journal.put(line)
            journal.flush()
    assert [log["event"] for log in logs] == ["journal_ended"]
    assert logs[0]["directory"] == str(tmp_path)
    assert figure("tlt_journal_ended") == 1
    assert lines_in(tmp_path)[1:] == list(pauses(1))
    again = opened(tmp_path, began_s=BEGAN_S + 60)
    assert figure("tlt_journal_ended") == 0
    again.put(next(pauses(1, after_s=60)))
    again.flush()
    assert len(lines_in(tmp_path)) == 4


def test_lines_that_a_slow_disk_has_no_time_for_are_counted(tmp_path: Path) -> None:
    before = figure("tlt_journal_dropped_lines_total")
    journal = opened(tmp_path, max_bytes=2**26)
    for line in pauses(MAX_WAITING + 5):
        journal.put(line)
    journal.flush()
    assert figure("tlt_journal_dropped_lines_total") == before + 5
    *rest, last = lines_in(tmp_path)
    assert len(rest) == 1 + MAX_WAITING
    assert last == DroppedLine(at=BEGAN_S + (MAX_WAITING - 1) / 100, lines=5)


@pytest.mark.parametrize("below", ["file", "file/below"])
def test_a_directory_that_cannot_be_used_ends_the_journal_and_nothing_else(tmp_path: Path, below: str) -> None:
    (tmp_path / "file").touch()
    with structlog.testing.capture_logs() as logs:
        journal = opened(tmp_path / below)
        journal.put(next(pauses(1)))
        journal.flush()
        journal.put(next(pauses(1)))
        journal.flush()
    assert [log["event"] for log in logs] == ["journal_ended"]
    assert str(tmp_path / "file") in logs[0]["error"]
    assert figure("tlt_journal_ended") == 1


def test_nothing_is_asked_of_the_disk_by_whoever_puts_lines(tmp_path: Path) -> None:
    journal = opened(tmp_path / "new")
    journal.put(next(pauses(1)))
    assert not (tmp_path / "new").exists()


def test_what_is_prepared_is_there_before_the_first_line_and_may_fail(tmp_path: Path) -> None:
    seen: list[Path] = []
    journal = opened(tmp_path, prepare=seen.append)
    journal.flush()
    journal.flush()
    assert seen == [tmp_path]

    def fail(_: Path) -> None:
        raise ConfigError("no key", field="journal")

    journal = opened(tmp_path, prepare=fail)
    journal.flush()
    assert figure("tlt_journal_ended") == 1


def test_a_link_with_the_name_of_a_journal_is_not_followed(tmp_path: Path) -> None:
    victim, directory = tmp_path / "victim", tmp_path / "journal"
    victim.write_bytes(b"not a line")
    directory.mkdir()
    file_of(directory, "gateway", "g", 1).path.symlink_to(victim)
    journal = opened(directory)
    for line in pauses(2000):
        journal.put(line)
        journal.flush()
    assert victim.read_bytes() == b"not a line"
    assert file_of(directory, "gateway", "g", 1).path.is_symlink()
    assert not file_of(directory, "gateway", "g", 2).path.is_symlink()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to give a file away")
def test_a_file_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    foreign = file_of(tmp_path, "gateway", "g", 1).path
    foreign.write_bytes(b"not a line")
    os.chown(foreign, 65532, 65532)
    journal = opened(tmp_path)
    for line in pauses(2000):
        journal.put(line)
        journal.flush()
    assert foreign.read_bytes() == b"not a line"
