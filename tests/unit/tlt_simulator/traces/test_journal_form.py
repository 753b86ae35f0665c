"""A journal is read into steps by the updates of the weights; what did not finish is left out."""

from pathlib import Path

import pytest

from tests.unit.tlt_common.journal.written import BEGAN_S, made_header, made_response
from tlt_common.domain.response import FinishReason
from tlt_common.errors import ConfigError
from tlt_common.journal.files import file_of
from tlt_common.journal.format import header_line, line_of
from tlt_common.journal.gateway_lines import RequestOutcome, StayEnd, UpdateLine, WorkerStay
from tlt_common.journal.line import Line
from tlt_simulator.traces import read_trace


def journal(directory: Path, service_id: str, *lines: Line) -> None:
    path = file_of(directory, "gateway", service_id, 1).path
    path.write_bytes(header_line(made_header(id=service_id)) + b"".join(map(line_of, lines)))


def response(at: float, group: str = "a", seconds: float = 9.0, **changes: object) -> Line:
    stay = WorkerStay(
        worker="w", began=BEGAN_S + at, ended=BEGAN_S + at + seconds, tokens=20, drafter=0, end=StayEnd.OVER
    )
    times = {"arrived": BEGAN_S + at, "first": BEGAN_S + at, "at": BEGAN_S + at + seconds, "stays": (stay,)}
    return made_response(group=group, **(times | changes))


def update(version: int, at: float, *, done: bool = True) -> Line:
    return UpdateLine(version=version, began=BEGAN_S + at, at=BEGAN_S + at + 1, done=done, workers=1)


def test_updates_divide_responses_into_steps(tmp_path: Path) -> None:
    journal(
        tmp_path,
        "gateway-0",
        response(1.0),
        response(2.5, "b", finish=FinishReason.LENGTH),
        update(1, 15.0),
        response(17.0),
        update(2, 30.0, done=False),
        response(31.0, "c"),
    )
    journal(tmp_path, "gateway-1", response(1.5), update(1, 15.5), response(18.0, "b", prefix=5, tokens=25))
    trace = read_trace(tmp_path)
    assert [[(one.prompt, one.tokens, one.ends, one.after_s) for one in step.samples] for step in trace.steps] == [
        [(0, 20, True, 0.0), (1, 20, False, 1.5), (0, 20, True, 0.5)],
        [(0, 20, True, 0.0), (2, 20, True, 14.0), (1, 20, True, 1.0)],
    ]
    assert trace.steps[1].samples[2].prompt_tokens == 12
    assert trace.cap == 64
    assert trace.notes == ("prompts have 1 to 2 responses in a step",)
    assert [(step.suite_rollout_s, step.step_s) for step in trace.steps] == [(10.5, 16.0), (23.0, None)]
    assert all(step.rollout_s is None for step in trace.steps), (
        "these drafted: nothing tells the time without the suite"
    )


def test_what_did_not_finish_is_left_out_and_counted(tmp_path: Path) -> None:
    bad = [response(2.0 + n, outcome=outcome) for n, outcome in enumerate(RequestOutcome) if outcome != "finished"]
    journal(tmp_path, "gateway-0", response(1.0), *bad)
    trace = read_trace(tmp_path)
    assert trace.responses == 1
    assert f"{len(bad)} requests to gateway-0 that did not finish were left out" in trace.notes


def test_a_journal_that_is_damaged_is_refused_by_line(tmp_path: Path) -> None:
    journal(tmp_path, "gateway-0", response(1.0))
    path = file_of(tmp_path, "gateway", "gateway-0", 1).path
    path.write_bytes(path.read_bytes().replace(b'"tokens":20,"cap"', b'"tokens":0.5,"cap"'))
    with pytest.raises(ConfigError, match=r"000001.jsonl:2: tokens is 0.5; accepted: "):
        read_trace(tmp_path)


def test_a_journal_of_a_coordinator_alone_is_refused(tmp_path: Path) -> None:
    path = file_of(tmp_path, "coordinator", "c", 1).path
    path.write_bytes(header_line(made_header(service="coordinator", id="c")))
    with pytest.raises(ConfigError, match="no journal of a gateway"):
        read_trace(tmp_path, form="journal")
