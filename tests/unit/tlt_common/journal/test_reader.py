"""Journals of several files: what is cut, mixed, missing or out of order."""

from collections import deque
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.tlt_common.journal.written import BEGAN_S, gateway_lines, made_header, made_response, write_file
from tlt_common.errors import ConfigError
from tlt_common.journal.contents import contents_of
from tlt_common.journal.format import header_line, line_of
from tlt_common.journal.gateway_lines import PauseLine, UpdateLine
from tlt_common.journal.line import Line
from tlt_common.journal.reader import JournalReader, journals_in


def paused(at_s: float) -> PauseLine:
    return PauseLine(at=BEGAN_S + at_s, paused=True)


def only_journal(directory: Path) -> JournalReader:
    (journal,) = journals_in(directory)
    return journal


def refused_as(directory: Path, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason) as refused:
        list(only_journal(directory).lines())
    assert refused.value.field == "journal"


def refusal(journal: JournalReader) -> str | None:
    """Return why a journal is refused; None if it is not."""
    try:
        deque(journal.lines(), maxlen=0)
    except ConfigError as error:
        return error.message
    return None


def test_files_of_one_run_follow_each_other_and_runs_have_headers(tmp_path: Path) -> None:
    first, second = made_header(), made_header(part=2)
    again = made_header(began=BEGAN_S + 50)
    write_file(tmp_path, 1, first, [paused(1), paused(2)])
    write_file(tmp_path, 2, second, [paused(3)])
    write_file(tmp_path, 3, again, [paused(60)])
    found = list(only_journal(tmp_path).lines())
    assert found == [first, paused(1), paused(2), paused(3), again, paused(60)]


def test_the_oldest_files_may_be_gone(tmp_path: Path) -> None:
    write_file(tmp_path, 17, made_header(part=5), [paused(1)])
    assert len(list(only_journal(tmp_path).lines())) == 2


def test_each_service_and_id_has_a_journal(tmp_path: Path) -> None:
    for header in (made_header(), made_header(id="rack/7-1"), made_header(service="coordinator")):
        write_file(tmp_path, 1, header, [])
    assert [(one.service, one.id) for one in journals_in(tmp_path)] == [
        ("coordinator", "gateway-0"),
        ("gateway", "gateway-0"),
        ("gateway", "rack/7-1"),
    ]
    assert all(len(list(one.lines())) == 1 for one in journals_in(tmp_path))


def test_a_cut_line_at_the_end_is_left_out_and_named(tmp_path: Path) -> None:
    whole = line_of(paused(2))
    for end in (whole[:-1], whole[:9], b"{"):
        path = write_file(tmp_path, 1, made_header(), [paused(1)], end=end)
        journal = only_journal(tmp_path)
        assert list(journal.lines()) == [made_header(), paused(1)]
        assert journal.cut == f"{path}:3"


@pytest.mark.parametrize("content", [b"", header_line(made_header())[:-5]])
def test_a_last_file_without_a_header_is_a_cut_one(tmp_path: Path, content: bytes) -> None:
    write_file(tmp_path, 1, made_header(), [paused(1)])
    path = write_file(tmp_path, 2, made_header(part=2), [])
    path.write_bytes(content)
    journal = only_journal(tmp_path)
    assert list(journal.lines()) == [made_header(), paused(1)]
    assert journal.cut == f"{path}:1"


def test_a_cut_line_elsewhere_is_refused(tmp_path: Path) -> None:
    path = write_file(tmp_path, 1, made_header(), [paused(1)], end=b'{"kind":"pa')
    write_file(tmp_path, 2, made_header(part=2), [])
    refused_as(tmp_path, f"^{path}:3: the line is cut; accepted: whole lines")


def test_mixed_and_missing_files_are_refused(tmp_path: Path) -> None:
    write_file(tmp_path, 1, made_header(), [paused(10)])
    path = write_file(tmp_path, 2, made_header(), [])
    for header, reason in (
        (made_header(part=3), "part is 3; accepted: 2"),
        (made_header(began=BEGAN_S + 9, part=2), "part is 2; accepted: 1"),
        (made_header(id="gateway-1", part=2), "id is 'gateway-1'; accepted: 'gateway-0'"),
        (made_header(service="coordinator", part=2), "service is 'coordinator'; accepted: 'gateway'"),
        (made_header(suite="0.3.0", part=2), "suite is '0.3.0'; accepted: '0.2.0'"),
        (made_header(began=BEGAN_S - 100), "began is .* at least"),
    ):
        path.write_bytes(header_line(header))
        refused_as(tmp_path, f"^{path}:1: {reason}")
    path.write_bytes(header_line(made_header(part=2)).replace(b"tlt-journal/1", b"tlt-journal/2"))
    refused_as(tmp_path, f"^{path}:1: format is 'tlt-journal/2'; accepted: tlt-journal/1")


def test_times_go_back_within_noise_only(tmp_path: Path) -> None:
    write_file(tmp_path, 1, made_header(), [paused(5), paused(4.5)])
    assert len(list(only_journal(tmp_path).lines())) == 3
    path = write_file(tmp_path, 1, made_header(), [paused(5), paused(5.5), paused(4.4)])
    refused_as(tmp_path, f"^{path}:4: at is .* at least")
    path = write_file(tmp_path, 1, made_header(), [paused(-3)])
    refused_as(tmp_path, f"^{path}:2: at is .* at least")


def test_other_files_of_lines_and_no_journal_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="has no journal; accepted: the directory that a gateway or coordinator has"):
        journals_in(tmp_path)
    with pytest.raises(ConfigError, match="No such file or directory; accepted: a directory"):
        journals_in(tmp_path / "missing")
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="Not a directory"):
        journals_in(tmp_path / "file")
    (tmp_path / "rounds-worker-0.jsonl").touch()
    with pytest.raises(ConfigError, match=r"rounds-worker-0\.jsonl is not a file of a journal; accepted: SERVICE-ID"):
        journals_in(tmp_path)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(gateway_lines, max_size=4), st.data())
def test_any_changed_byte_is_read_or_refused_by_place(tmp_path: Path, lines: list[Line], data: st.DataObject) -> None:
    path = write_file(tmp_path, 1, made_header(), lines)
    content = bytearray(path.read_bytes())
    place = data.draw(st.integers(0, len(content) - 1))
    match data.draw(st.sampled_from(["change", "cut", "drop", "repeat"])):
        case "change":
            content[place] = data.draw(st.integers(0, 255))
        case "cut":
            del content[place:]
        case "drop":
            del content[place : place + data.draw(st.integers(1, 40))]
        case "repeat":
            content[place:place] = content[place : place + data.draw(st.integers(1, 40))]
    path.write_bytes(bytes(content))
    journal = only_journal(tmp_path)
    why = refusal(journal)
    assert why is None or (why.startswith(f"{path}:") and "accepted: " in why)


def test_a_file_that_its_service_has_deleted_meanwhile_is_named(tmp_path: Path) -> None:
    write_file(tmp_path, 1, made_header(), [paused(1)])
    path = write_file(tmp_path, 2, made_header(part=2), [paused(2)])
    journal = only_journal(tmp_path)
    path.unlink()
    with pytest.raises(ConfigError, match=f"{path} cannot be read"):
        contents_of(journal)


def test_contents_sum_up_what_was_written(tmp_path: Path) -> None:
    update = UpdateLine(at=BEGAN_S + 10, version=5, began=BEGAN_S + 8, done=True, workers=2)
    failed = UpdateLine(at=BEGAN_S + 11, version=6, began=BEGAN_S + 11, done=False, workers=0)
    other = made_response(at=BEGAN_S + 9.5, number=2, group="beef", prefix=4, tokens=30)
    write_file(tmp_path, 1, made_header(), [made_response(), other, update, failed])
    write_file(tmp_path, 2, made_header(began=BEGAN_S + 3600), [], end=b"{")
    found = contents_of(only_journal(tmp_path))
    assert (found.files, found.runs, found.suites, found.seconds) == (2, 2, ("0.2.0",), 3600)
    assert found.lines == {"response": 2, "update": 2}
    assert (found.workers, found.groups, found.tokens, found.steps) == (2, 2, 46, 1)
    assert found.size_bytes == sum(path.stat().st_size for path in tmp_path.iterdir())
    assert found.cut.endswith("000002.jsonl:2")
