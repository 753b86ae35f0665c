"""A gateway's first look at a worker."""

import asyncio
from collections.abc import AsyncIterator

import grpc

from tlt_common.domain.fleet import WatchDemand, WatchReport
from tlt_common.errors import TltError, UnavailableError
from tlt_common.rpc.errors import translated
from tlt_common.wire import worker as wire


async def first_report(channel: grpc.aio.Channel, within_s: float = 10.0) -> WatchReport:
    """Return what a worker reports first to a gateway that watches it. Raises the worker's TltError."""

    async def demands() -> AsyncIterator[wire.pb.WatchRequest]:
        yield wire.demand_to_pb(WatchDemand(gateway_id="test", demand=0))

    async with asyncio.timeout(within_s):
        while True:
            try:
                with translated():
                    async for message in wire.Stub(channel).Watch(demands(), timeout=within_s):
                        return wire.report_from_pb(message)
            except TltError as error:
                # A server that refuses a stream may end it while gRPC still sends: that loses the refusal.
                if _code_of(error) is not grpc.StatusCode.INTERNAL:
                    raise
            else:
                raise UnavailableError("the watch ended without a report")


def _code_of(error: TltError) -> grpc.StatusCode | None:
    status = error.__cause__
    return status.code() if isinstance(status, grpc.aio.AioRpcError) else None
