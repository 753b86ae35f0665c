"""Lines of journals: what is written is read back, and what is impossible is refused by field."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.tlt_common.journal.written import (
    BEGAN_S,
    coordinator_lines,
    gateway_lines,
    made_header,
    made_response,
)
from tlt_common.errors import ConfigError
from tlt_common.journal.coordinator_lines import ExcludedLine, WorkerLine
from tlt_common.journal.format import header_line, line_of, parsed, parsed_header
from tlt_common.journal.gateway_lines import UpdateLine
from tlt_common.journal.line import Line


@given(gateway_lines)
def test_what_a_gateway_writes_is_read_back(line: Line) -> None:
    assert parsed("a line", line_of(line), service="gateway") == line


@given(coordinator_lines)
def test_what_a_coordinator_writes_is_read_back(line: Line) -> None:
    assert parsed("a line", line_of(line), service="coordinator") == line


def test_headers_are_read_back() -> None:
    assert parsed_header("line 1", header_line(made_header(part=3))) == made_header(part=3)


def test_names_that_are_too_long_or_no_utf8_are_written_as_far_as_they_can_be() -> None:
    for name, written in (("w\ud800", "w?"), ("é" * 2000, "é" * 1000)):
        line = ExcludedLine(at=BEGAN_S, workers=(name,))
        assert parsed("a line", line_of(line), service="coordinator") == replace(line, workers=(written,))


def test_no_field_holds_tokens_or_texts() -> None:
    """A field that could is a list of numbers, of which there are versions only."""
    response = json.loads(line_of(made_response()))
    lists = {name for name, value in response.items() if isinstance(value, list)}
    assert lists == {"versions", "stays"}


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"format": "tlt-journal/2"}, "format"),
        ({"format": None}, "format"),
        ({"service": "worker"}, "service"),
        ({"id": ""}, "id"),
        ({"part": 0}, "part"),
        ({"began": "now"}, "began"),
        ({"clock": "monotonic"}, "clock"),
        ({"more": 1}, "more"),
    ],
)
def test_other_headers_are_refused_by_field(changes: dict[str, Any], field: str) -> None:
    values = json.loads(header_line(made_header())) | changes
    with pytest.raises(ConfigError, match=rf"^f:1: {field} is .*; accepted: ") as refused:
        parsed_header("f:1", json.dumps(values).encode())
    assert refused.value.field == "journal"


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"kind": "token"}, "kind"),
        ({"kind": "lease"}, "kind"),
        ({"kind": ["response"]}, "kind"),
        ({"at": -1.0}, "at"),
        ({"at": True}, "at"),
        ({"at": 1e300}, "at"),
        ({"number": 0}, "number"),
        ({"group": 7}, "group"),
        ({"outcome": "done"}, "outcome"),
        ({"finish": ""}, "finish"),
        ({"prompt": -3}, "prompt"),
        ({"prompt": 2.0}, "prompt"),
        ({"tokens": 65}, "tokens"),
        ({"prefix": 21}, "prefix"),
        ({"cached": 8}, "cached"),
        ({"accepted": 31}, "accepted"),
        ({"first": BEGAN_S + 10}, "first"),
        ({"first": BEGAN_S - 1}, "arrived"),
        ({"arrived": BEGAN_S + 1.5}, "arrived"),
        ({"at": BEGAN_S + 8}, "stays.ended"),
        ({"tokens": 19}, "stays.tokens"),
        ({"versions": [1, -1]}, r"versions.\[1\]"),
        ({"versions": 4}, "versions"),
        ({"stays": [{}]}, r"stays.\[0\].worker"),
        ({"stays": [7]}, r"stays.\[0\]"),
        ({"prompt_tokens": [1, 2]}, "prompt_tokens"),
    ],
)
def test_impossible_responses_are_refused_by_field(changes: dict[str, Any], field: str) -> None:
    values = json.loads(line_of(made_response())) | changes
    with pytest.raises(ConfigError, match=rf"^f:9: {field} is .*; accepted: "):
        parsed("f:9", json.dumps(values).encode(), service="gateway")


def test_a_stay_that_ends_before_it_begins_is_refused() -> None:
    values = json.loads(line_of(made_response()))
    values["stays"][0]["ended"] = BEGAN_S + 0.5
    with pytest.raises(ConfigError, match=r"f:9: stays.\[0\].began is .* at most ended"):
        parsed("f:9", json.dumps(values).encode(), service="gateway")


def test_other_impossible_lines_are_refused_by_field() -> None:
    early = UpdateLine(at=BEGAN_S, version=1, began=BEGAN_S + 1, done=True, workers=1)
    many = WorkerLine(at=BEGAN_S, worker="w", device="cpu", model="m", devices=1, training_devices=2, slots=1)
    for line, service, field in ((early, "gateway", "began"), (many, "coordinator", "training_devices")):
        with pytest.raises(ConfigError, match=f"f:2: {field} is"):
            parsed("f:2", line_of(line), service=service)


@given(
    st.tuples(gateway_lines, st.just("gateway")) | st.tuples(coordinator_lines, st.just("coordinator")),
    st.data(),
)
def test_a_line_without_one_of_its_fields_is_refused(drawn: tuple[Line, str], data: st.DataObject) -> None:
    line, service = drawn
    values = json.loads(line_of(line))
    missing = data.draw(st.sampled_from(sorted(values)))
    del values[missing]
    with pytest.raises(ConfigError, match=f"f:4: {missing} is missing; accepted: "):
        parsed("f:4", json.dumps(values).encode(), service=service)


@pytest.mark.parametrize("text", [b"", b"[]", b"3", b'{"kind"', b"\xff", b"[" * 100_000, b'{"kind":"pause","at":NaN}'])
def test_what_is_no_object_is_refused(text: bytes) -> None:
    with pytest.raises(ConfigError, match=r"^f:2: "):
        parsed("f:2", text, service="gateway")
