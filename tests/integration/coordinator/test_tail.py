"""Gateways get one view of the tail from the coordinator, while it lends."""

import grpc
import pytest

from tests.integration.coordinator.conftest import Start
from tests.unit.tlt_gateway.consolidation.views import request, worker
from tlt_common.errors import InvalidRequestError
from tlt_common.forecast.load import GatewayLoad, TailReport
from tlt_common.rpc.channel import connect
from tlt_common.rpc.errors import translated
from tlt_common.wire import coordinator as wire
from tlt_common.wire.load import load_to_pb, tail_from_pb

TAIL = TailReport(is_settled=True, workers=(worker(0), worker(1)), requests=(request(1, 0, 500.0),))


async def report(channel: grpc.aio.Channel, gateway: str, load: GatewayLoad | None) -> wire.pb.ReportQueueResponse:
    message = wire.pb.ReportQueueRequest(gateway_id=gateway, load=load_to_pb(load) if load else None)
    with translated():
        return await wire.Stub(channel).ReportQueue(message, timeout=10)


async def test_all_gateways_see_the_requests_of_all(start: Start) -> None:
    async with start() as at, connect(at.grpc) as channel:
        assert not (await report(channel, "a", GatewayLoad())).HasField("tail"), "it cannot forecast"
        assert not (await report(channel, "b", GatewayLoad(tail=TAIL))).HasField("tail")
        first = await report(channel, "a", GatewayLoad(tail=TAIL))
        second = await report(channel, "b", GatewayLoad(tail=TAIL))
        assert tail_from_pb(first.tail) == tail_from_pb(second.tail)
        assert [one.name for one in tail_from_pb(first.tail).requests] == ["a/1", "b/1"]
        assert not (await report(channel, "b", None)).HasField("tail"), "a queue alone is no load, and replaces none"


async def test_while_nothing_is_lent_there_is_no_tail(start: Start) -> None:
    async with start(lending=False) as at, connect(at.grpc) as channel:
        assert not (await report(channel, "a", GatewayLoad(tail=TAIL))).HasField("tail")


async def test_a_senseless_load_is_refused_by_field(start: Start) -> None:
    async with start() as at, connect(at.grpc) as channel:
        with pytest.raises(InvalidRequestError) as refused:
            await report(channel, "a", GatewayLoad(ended=(-1,)))
        assert refused.value.field == "load.ended_tokens"
