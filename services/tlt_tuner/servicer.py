"""gRPC servicer of tlt.tuner.v1: decodes, delegates, encodes."""

from collections.abc import AsyncIterator
from typing import Any, TypeAlias

import grpc

from tlt_common.wire import tuner as wire
from tlt_tuner.pools import name_of
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
        async for posterior in self._tuner.watch(name_of(wire.key_from_pb(request.key))):
            yield wire.posterior_to_pb(posterior)
