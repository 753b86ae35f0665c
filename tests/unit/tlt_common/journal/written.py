"""Lines and files of journals, drawn or made."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from tlt_common.domain.fleet import WorkerState
from tlt_common.domain.response import FinishReason
from tlt_common.journal.coordinator_lines import (
    DrafterLine,
    ExcludedLine,
    LeaderLine,
    LeaseChange,
    LeaseLine,
    LendingLine,
    StateLine,
    TrainedLine,
    WorkerLine,
)
from tlt_common.journal.files import file_of
from tlt_common.journal.format import Header, header_line, line_of
from tlt_common.journal.gateway_lines import (
    EngineLine,
    PauseLine,
    PrefillLine,
    RequestOutcome,
    ResponseLine,
    RoundsLine,
    StayEnd,
    UpdateLine,
    WorkerStay,
)
from tlt_common.journal.line import DroppedLine, Line

BEGAN_S = 1_767_225_600.0

names = st.text(min_size=1, max_size=20)
counts = st.integers(0, 10**6)
positive = st.integers(1, 10**6)
seconds = st.floats(0, 1e5).map(lambda value: round(value, 6))
shares = st.floats(0, 1).map(lambda value: round(value, 6))


@st.composite
def responses(draw: st.DrawFn) -> ResponseLine:
    times = sorted(draw(st.lists(st.integers(0, 10**6), min_size=8, max_size=8)))
    arrived, *rest, at = [BEGAN_S + time / 1000 for time in times]
    stays = tuple(
        WorkerStay(
            worker=draw(names),
            began=rest[2 * place],
            ended=rest[2 * place + 1],
            tokens=draw(st.integers(0, 500)),
            drafter=draw(counts),
            end=draw(st.sampled_from(StayEnd)),
        )
        for place in range(draw(st.integers(0, 3)))
    )
    prefix, prompt = draw(st.integers(0, 100)), draw(positive)
    tokens = prefix + sum(stay.tokens for stay in stays) + draw(st.integers(0, 100))
    accepted = draw(st.none() | st.integers(0, 1000))
    return ResponseLine(
        at=at,
        number=draw(positive),
        group=draw(names),
        outcome=draw(st.sampled_from(RequestOutcome)),
        finish=draw(st.none() | st.sampled_from(FinishReason)),
        prompt=prompt,
        prefix=prefix,
        tokens=tokens,
        cap=tokens + draw(positive),
        cached=draw(st.none() | st.integers(0, prompt)),
        arrived=arrived,
        first=draw(st.none() | st.sampled_from(rest)),
        rounds=draw(st.none() | counts),
        accepted=accepted,
        drafted=None if accepted is None else accepted + draw(counts),
        versions=tuple(draw(st.lists(counts, max_size=3))),
        stays=stays,
    )


@st.composite
def rounds(draw: st.DrawFn) -> RoundsLine:
    accepted = draw(counts)
    return RoundsLine(
        at=BEGAN_S,
        device=draw(names),
        arm=draw(names),
        batch=draw(positive),
        drafter=draw(counts),
        policy=draw(counts),
        rounds=draw(positive),
        seconds=draw(seconds),
        tokens=accepted + draw(counts),
        accepted=accepted,
        drafted=accepted + draw(counts),
        kv_tokens=draw(counts),
    )


at = st.just(BEGAN_S)
gateway_lines: st.SearchStrategy[Line] = st.one_of(
    responses(),
    rounds(),
    st.builds(EngineLine, at=at, worker=names, device=names, slots=positive, context=positive, kv_room=counts),
    st.builds(PrefillLine, at=at, device=names, tokens=counts, seconds=seconds),
    st.builds(UpdateLine, at=at, version=counts, began=st.just(BEGAN_S - 5), done=st.booleans(), workers=counts),
    st.builds(PauseLine, at=at, paused=st.booleans()),
    st.builds(DroppedLine, at=at, lines=positive),
)
coordinator_lines: st.SearchStrategy[Line] = st.one_of(
    st.builds(
        WorkerLine,
        at=at,
        worker=names,
        device=names,
        model=names,
        devices=st.integers(4, 8),
        training_devices=st.integers(0, 4),
        slots=counts,
    ),
    st.builds(StateLine, at=at, worker=names, state=st.sampled_from(WorkerState)),
    st.builds(
        LeaseLine, at=at, worker=names, epoch=positive, change=st.sampled_from(LeaseChange), reason=st.just("queue")
    ),
    st.builds(
        TrainedLine,
        at=at,
        worker=names,
        seconds=seconds,
        steps=counts,
        tokens=counts,
        passes=seconds,
        gain=st.none() | st.floats(-10, 10).map(lambda value: round(value, 9)),
        load_s=seconds,
    ),
    st.builds(
        DrafterLine,
        at=at,
        version=positive,
        base=counts,
        worker=st.just("") | names,
        top1=shares,
        base_top1=st.none() | shares,
        policy=counts,
        tokens=counts,
    ),
    st.builds(LendingLine, at=at, enabled=st.booleans()),
    st.builds(ExcludedLine, at=at, workers=st.lists(names, max_size=3).map(tuple)),
    st.builds(LeaderLine, at=at, leads=st.booleans()),
    st.builds(DroppedLine, at=at, lines=positive),
)


def made_header(**changes: Any) -> Header:
    """Return the header of a gateway's first file."""
    values: dict[str, Any] = {"service": "gateway", "id": "gateway-0", "began": BEGAN_S, "part": 1, "suite": "0.2.0"}
    return Header(**(values | changes))


def made_response(**changes: Any) -> ResponseLine:
    """Return a response of 20 tokens that was moved once."""
    stays = (
        WorkerStay(worker="worker-0", began=BEGAN_S + 1, ended=BEGAN_S + 5, tokens=12, drafter=1, end=StayEnd.MOVED),
        WorkerStay(worker="worker-1", began=BEGAN_S + 5, ended=BEGAN_S + 9, tokens=8, drafter=2, end=StayEnd.OVER),
    )
    values: dict[str, Any] = {
        "at": BEGAN_S + 9,
        "number": 1,
        "group": "f00d",
        "outcome": RequestOutcome.FINISHED,
        "finish": FinishReason.STOP,
        "prompt": 7,
        "prefix": 0,
        "tokens": 20,
        "cap": 64,
        "cached": 3,
        "arrived": BEGAN_S,
        "first": BEGAN_S + 2,
        "rounds": 6,
        "accepted": 14,
        "drafted": 30,
        "versions": (3, 4),
        "stays": stays,
    }
    return ResponseLine(**(values | changes))


def write_file(directory: Path, number: int, header: Header, lines: Iterable[Line], *, end: bytes = b"") -> Path:
    """Write a file as a service does."""
    path = file_of(directory, header.service, header.id, number).path
    path.write_bytes(header_line(header) + b"".join(map(line_of, lines)) + end)
    return path
