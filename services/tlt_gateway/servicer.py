"""tlt.rollout.v1 on the wire: decode, delegate, encode."""

from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any, TypeAlias

import grpc

from tlt_common.domain.ids import RequestId
from tlt_common.domain.rollout import Prompt
from tlt_common.domain.weights import TensorChunk, WeightsUpdate
from tlt_common.errors import InvalidRequestError
from tlt_common.telemetry.trace import told
from tlt_common.wire import rollout as wire
from tlt_gateway.batch import at_index
from tlt_gateway.gateway import Gateway

Context: TypeAlias = grpc.aio.ServicerContext[Any, Any]


class RolloutServicer(wire.Servicer):
    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def Generate(
        self, request: wire.pb.GenerateRequest, context: Context
    ) -> AsyncIterator[wire.pb.GenerateResponse]:
        prompt = wire.prompt_from_pb(request.prompt)
        async with aclosing(told(self._gateway.generate(prompt), prompt.request_id)) as chunks:
            async for chunk in chunks:
                yield wire.pb.GenerateResponse(chunk=wire.chunk_to_pb(chunk))

    async def GenerateBatch(
        self, request: wire.pb.GenerateBatchRequest, context: Context
    ) -> AsyncIterator[wire.pb.GenerateBatchResponse]:
        async with aclosing(self._gateway.batches.run(_prompts(request), request.samples_per_prompt)) as samples:
            async for sample in samples:
                yield wire.sample_to_pb(sample)

    async def Abort(self, request: wire.pb.AbortRequest, context: Context) -> wire.pb.AbortResponse:
        dispatch = self._gateway.dispatch
        request_ids = map(RequestId, request.request_ids)
        return wire.pb.AbortResponse(aborted_count=dispatch.abort_all() if request.all else dispatch.abort(request_ids))

    async def UpdateWeights(
        self, request_iterator: AsyncIterator[wire.pb.UpdateWeightsRequest], context: Context
    ) -> wire.pb.UpdateWeightsResponse:
        parts = (wire.update_from_pb(message) async for message in request_iterator)
        update = await anext(parts, None)
        if not isinstance(update, WeightsUpdate):
            raise InvalidRequestError("the first message is no header; accepted: header, then tensors", field="header")
        return wire.result_to_pb(await self._gateway.weights.update(update, _tensors(parts)))

    async def GetServerInfo(
        self, request: wire.pb.GetServerInfoRequest, context: Context
    ) -> wire.pb.GetServerInfoResponse:
        return wire.info_to_pb(self._gateway.info)


def _prompts(request: wire.pb.GenerateBatchRequest) -> list[Prompt]:
    prompts = []
    for index, message in enumerate(request.prompts):
        try:
            prompts.append(wire.prompt_from_pb(message))
        except InvalidRequestError as error:
            raise at_index(error, index) from None
    return prompts


async def _tensors(parts: AsyncIterator[WeightsUpdate | TensorChunk]) -> AsyncIterator[TensorChunk]:
    async for part in parts:
        if not isinstance(part, TensorChunk):
            raise InvalidRequestError("a second header came; accepted: one, first", field="header")
        yield part
