"""What gateways report of running requests."""

import pytest

from tests.integration.coordinator.conftest import Start
from tlt_common.errors import InvalidRequestError
from tlt_common.load import GatewayLoad
from tlt_common.rpc.channel import connect
from tlt_common.rpc.errors import translated
from tlt_common.wire import coordinator as wire
from tlt_common.wire.load import load_to_pb


async def test_a_senseless_load_is_refused_by_field(start: Start) -> None:
    async with start() as at, connect(at.grpc) as channel:
        message = wire.pb.ReportQueueRequest(gateway_id="a", load=load_to_pb(GatewayLoad(ended=(-1,))))
        with pytest.raises(InvalidRequestError) as refused, translated():
            await wire.Stub(channel).ReportQueue(message, timeout=10)
        assert refused.value.field == "load.ended_tokens"
