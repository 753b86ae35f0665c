"""A gateway's first look at a worker."""

from collections.abc import AsyncIterator

import grpc

from tlt_common.domain.fleet import WatchDemand, WatchReport
from tlt_common.errors import UnavailableError
from tlt_common.rpc.errors import translated
from tlt_common.wire import worker as wire


async def first_report(channel: grpc.aio.Channel, within_s: float = 10.0) -> WatchReport:
    """Return what a worker reports first to a gateway that watches it. Raises the worker's TltError."""

    async def demands() -> AsyncIterator[wire.pb.WatchRequest]:
        yield wire.demand_to_pb(WatchDemand(gateway_id="test", demand=0))

    with translated():
        async for message in wire.Stub(channel).Watch(demands(), timeout=within_s):
            return wire.report_from_pb(message)
    raise UnavailableError("the watch ended without a report")
