"""What gateways report arrives as it was sent, and what is out of range is refused by name."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tlt_common.domain.ids import WorkerId
from tlt_common.errors import InvalidRequestError
from tlt_common.forecast import LEVELS, Left, TailRequest, TailView, TailWorker, TokenPace
from tlt_common.forecast.load import AnnouncedRequests, GatewayLoad, MovedRequest, TailReport, WorkerLoad, by_cap
from tlt_common.wire import coordinator as wire
from tlt_common.wire.load import load_from_pb, load_to_pb, tail_from_pb, tail_to_pb

names = st.text("abc-0123", min_size=1, max_size=20).map(WorkerId)
tokens = st.integers(0, 2**31 - 1)
seconds = st.floats(0.0, 1e3)
paces = st.builds(TokenPace, st.lists(st.tuples(seconds, seconds), min_size=1, max_size=8).map(tuple), seconds)
lefts = st.lists(st.integers(0, 10**6), min_size=len(LEVELS), max_size=len(LEVELS)).map(
    lambda values: Left(tuple(map(float, sorted(values))))
)
workers = st.builds(
    TailWorker,
    worker_id=names,
    pace=paces,
    slots=st.integers(0, 512),
    kv_room=st.integers(0, 10**9),
    lendable=st.booleans(),
    training=st.booleans(),
)
requests = st.builds(
    TailRequest, gateway_id=st.just("g"), ref=st.integers(0, 2**40), worker_id=names, kv_tokens=tokens, left=lefts
)
tails = st.builds(
    TailReport,
    is_settled=st.booleans(),
    workers=st.lists(workers, max_size=4).map(tuple),
    requests=st.lists(requests, max_size=6).map(tuple),
)
loads = st.builds(
    GatewayLoad,
    workers=st.lists(
        st.builds(
            WorkerLoad,
            worker_id=names,
            running=st.lists(st.tuples(st.integers(1, 4), tokens), max_size=6).map(by_cap),
            kv_tokens=tokens,
        ),
        max_size=4,
    ).map(tuple),
    ended=st.lists(tokens, max_size=5).map(tuple),
    cut=st.lists(tokens, max_size=5).map(tuple),
    tail=st.none() | tails,
    moved=st.lists(
        st.builds(MovedRequest, from_id=names, to_id=names, kv_tokens=tokens, age_s=seconds), max_size=4
    ).map(tuple),
    announced=st.lists(st.builds(AnnouncedRequests, caller=tokens, count=tokens), max_size=3).map(tuple),
)


@given(loads)
def test_a_load_arrives_as_it_was_sent(load: GatewayLoad) -> None:
    message = wire.pb.GatewayLoad.FromString(load_to_pb(load).SerializeToString())
    assert load_from_pb(message, gateway_id="g") == load


@given(tails, st.integers(0, 10**6))
def test_a_tail_arrives_as_it_was_sent(tail: TailReport, serial: int) -> None:
    view = TailView(serial=serial, workers=tail.workers, requests=tail.requests)
    message = wire.pb.Tail.FromString(tail_to_pb(view, age_s=0.5).SerializeToString())
    assert tail_from_pb(message) == view
    assert message.age_s == 0.5


@given(st.integers(1, 2**31 - 1))
def test_a_cap_is_told_no_lower_and_hardly_higher(cap: int) -> None:
    [of] = by_cap([(cap, 0)])
    assert cap <= of.cap <= cap * 1.13 + 1


@given(st.lists(st.tuples(st.integers(1, 15), tokens), max_size=50))
def test_every_request_is_counted_once_by_cap_and_bits(drawn: list[tuple[int, int]]) -> None:
    found = by_cap(drawn)
    assert sum(sum(of.counts) for of in found) == len(drawn)
    for of in found:
        for bits, count in enumerate(of.counts):
            assert count == sum(cap == of.cap and generated.bit_length() == bits for cap, generated in drawn)


def test_a_report_of_512_workers_is_small() -> None:
    running = by_cap((32_768 - 37 * place, 100 * place) for place in range(64))
    load = GatewayLoad(
        workers=tuple(
            WorkerLoad(worker_id=WorkerId(f"tlt-worker-{number}"), running=running, kv_tokens=300_000)
            for number in range(512)
        )
    )
    assert len(load_to_pb(load).SerializeToString()) < 40_000


def bad_tail(**changes: object) -> wire.pb.GatewayLoad:
    good = {"ref": 1, "worker_id": "w", "kv_tokens": 5, "left_tokens": [1.0] * len(LEVELS)}
    tail = wire.pb.TailReport(requests=[wire.pb.TailRequest(**(good | changes))])  # type: ignore[arg-type] # of these
    return wire.pb.GatewayLoad(tail=tail)


@pytest.mark.parametrize(
    ("message", "field"),
    [
        (wire.pb.GatewayLoad(ended_tokens=[-1]), "load.ended_tokens"),
        (wire.pb.GatewayLoad(moved=[wire.pb.MovedRequest(from_worker_id="w")]), "load.moved.to_worker_id"),
        (
            wire.pb.GatewayLoad(moved=[wire.pb.MovedRequest(from_worker_id="v", to_worker_id="w", age_s=-1.0)]),
            "load.moved.age_s",
        ),
        (wire.pb.GatewayLoad(cut_tokens=[5, -7]), "load.cut_tokens"),
        (
            wire.pb.GatewayLoad(announced=[wire.pb.AnnouncedRequests(caller_number=-1)]),
            "load.announced.caller_number",
        ),
        (
            wire.pb.GatewayLoad(announced=[wire.pb.AnnouncedRequests(request_count=-1)]),
            "load.announced.request_count",
        ),
        (wire.pb.GatewayLoad(ended_tokens=[1] * 65_537), "load.ended_tokens"),
        (wire.pb.GatewayLoad(workers=[wire.pb.WorkerLoad()]), "load.workers.worker_id"),
        (wire.pb.GatewayLoad(workers=[wire.pb.WorkerLoad(worker_id="w", kv_tokens=-1)]), "load.workers.kv_tokens"),
        (bad_tail(worker_id=""), "tail.requests.worker_id"),
        (bad_tail(kv_tokens=-1), "tail.requests.kv_tokens"),
        (bad_tail(left_tokens=[1.0]), "tail.requests.left_tokens"),
        (bad_tail(left_tokens=[float("nan")] * len(LEVELS)), "tail.requests.left_tokens"),
        (bad_tail(left_tokens=[9.0, *[1.0] * (len(LEVELS) - 1)]), "tail.requests.left_tokens"),
        (
            wire.pb.GatewayLoad(tail=wire.pb.TailReport(workers=[wire.pb.TailWorker(worker_id="w")])),
            "tail.workers.pace",
        ),
    ],
)
def test_what_is_out_of_range_is_refused_by_name(message: wire.pb.GatewayLoad, field: str) -> None:
    with pytest.raises(InvalidRequestError) as refused:
        load_from_pb(message, gateway_id="g")
    assert refused.value.field == field
