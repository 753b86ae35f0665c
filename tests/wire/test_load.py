"""What gateways report arrives as it was sent, and what is out of range is refused by name."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tlt_common.domain.ids import WorkerId
from tlt_common.errors import InvalidRequestError
from tlt_common.load import GatewayLoad, WorkerLoad, by_cap
from tlt_common.wire import coordinator as wire
from tlt_common.wire.load import load_from_pb, load_to_pb


@given(st.integers(1, 2**31 - 1))
def test_a_cap_is_told_no_lower_and_hardly_higher(cap: int) -> None:
    [of] = by_cap([(cap, 0)])
    assert cap <= of.cap <= cap * 1.13 + 1


@given(st.lists(st.tuples(st.integers(1, 15), st.integers(0, 2**31 - 1)), max_size=50))
def test_every_request_is_counted_once_by_cap_and_bits(drawn: list[tuple[int, int]]) -> None:
    found = by_cap(drawn)
    assert sum(sum(of.counts) for of in found) == len(drawn)
    for of in found:
        for bits, count in enumerate(of.counts):
            assert count == sum(cap == of.cap and generated.bit_length() == bits for cap, generated in drawn)


def test_a_report_of_512_workers_is_small() -> None:
    running = by_cap((32_768 - 37 * place, 100 * place) for place in range(64))
    load = GatewayLoad(
        workers=tuple(WorkerLoad(worker_id=WorkerId(f"tlt-worker-{number}"), running=running) for number in range(512))
    )
    assert len(load_to_pb(load).SerializeToString()) < 40_000


@pytest.mark.parametrize(
    ("message", "field"),
    [
        (wire.pb.GatewayLoad(ended_tokens=[-1]), "load.ended_tokens"),
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
    ],
)
def test_what_is_out_of_range_is_refused_by_name(message: wire.pb.GatewayLoad, field: str) -> None:
    with pytest.raises(InvalidRequestError) as refused:
        load_from_pb(message)
    assert refused.value.field == field
