"""tlt.tuner.v1 on the wire: decode, delegate, encode."""

from collections.abc import AsyncIterator
from typing import Any, TypeAlias

import grpc

from tlt_common.wire import tuner as wire
from tlt_tuner.pool import PoolName
from tlt_tuner.tuner import Tuner

Context: TypeAlias = grpc.aio.ServicerContext[Any, Any]


class TunerServicer(wire.Servicer):
    def __init__(self, tuner: Tuner) -> None:
        self._tuner = tuner

    async def ReportWindow(
        self, request: wire.pb.ReportWindowRequest, context: Context
    ) -> wire.pb.ReportWindowResponse:
        self._tuner.report(wire.key_from_pb(request.key), tuple(map(wire.window_from_pb, request.arms)))
        return wire.pb.ReportWindowResponse()

    async def WatchPosterior(
        self, request: wire.pb.WatchPosteriorRequest, context: Context
    ) -> AsyncIterator[wire.pb.WatchPosteriorResponse]:
        key = wire.key_from_pb(request.key)
        async for posterior in self._tuner.watch(PoolName(key.model, key.device)):
            yield wire.posterior_to_pb(posterior)
