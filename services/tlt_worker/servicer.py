"""tlt.worker.v1 on the wire: decode, delegate, encode."""

from collections.abc import AsyncIterator
from typing import Any, TypeAlias

import grpc

from tlt_common.domain.fleet import DrafterWish
from tlt_common.domain.ids import DrafterVersion, PolicyVersion, RequestId
from tlt_common.domain.weights import TensorChunk, WeightsUpdate
from tlt_common.errors import InvalidRequestError
from tlt_common.telemetry.trace import told
from tlt_common.wire import worker as wire
from tlt_worker.worker import Worker

Context: TypeAlias = grpc.aio.ServicerContext[Any, Any]


class WorkerServicer(wire.Servicer):
    def __init__(self, worker: Worker) -> None:
        self._worker = worker

    async def Generate(
        self, request: wire.pb.GenerateRequest, context: Context
    ) -> AsyncIterator[wire.pb.GenerateResponse]:
        prompt = wire.prompt_from_pb(request.prompt)
        async for chunk in told(self._worker.generation.generate(prompt), prompt.request_id):
            yield wire.pb.GenerateResponse(chunk=wire.chunk_to_pb(chunk))

    async def Abort(self, request: wire.pb.AbortRequest, context: Context) -> wire.pb.AbortResponse:
        count = await self._worker.generation.abort(RequestId(request_id) for request_id in request.request_ids)
        return wire.pb.AbortResponse(aborted_count=count)

    async def StageWeights(
        self, request_iterator: AsyncIterator[wire.pb.StageWeightsRequest], context: Context
    ) -> wire.pb.StageWeightsResponse:
        parts = (wire.stage_from_pb(message) async for message in request_iterator)
        update = await anext(parts, None)
        if not isinstance(update, WeightsUpdate):
            raise InvalidRequestError("the first message is no header; accepted: header, then tensors", field="header")
        staged_bytes = await self._worker.weights.stage(update, _tensors(parts))
        return wire.pb.StageWeightsResponse(staged_bytes=staged_bytes)

    async def CommitWeights(
        self, request: wire.pb.CommitWeightsRequest, context: Context
    ) -> wire.pb.CommitWeightsResponse:
        pause_s = await self._worker.weights.commit(PolicyVersion(request.policy_version))
        return wire.pb.CommitWeightsResponse(pause_s=pause_s)

    async def DiscardWeights(
        self, request: wire.pb.DiscardWeightsRequest, context: Context
    ) -> wire.pb.DiscardWeightsResponse:
        await self._worker.weights.discard(PolicyVersion(request.policy_version))
        return wire.pb.DiscardWeightsResponse()

    async def ApplyDrafter(
        self, request: wire.pb.ApplyDrafterRequest, context: Context
    ) -> wire.pb.ApplyDrafterResponse:
        wish = DrafterWish(version=DrafterVersion(request.drafter_version), uri=request.source.uri)
        return wire.pb.ApplyDrafterResponse(pause_s=await self._worker.drafters.apply(wish))

    async def GetWorkerInfo(
        self, request: wire.pb.GetWorkerInfoRequest, context: Context
    ) -> wire.pb.GetWorkerInfoResponse:
        return wire.info_to_pb(self._worker.info)


async def _tensors(parts: AsyncIterator[WeightsUpdate | TensorChunk]) -> AsyncIterator[TensorChunk]:
    async for part in parts:
        if not isinstance(part, TensorChunk):
            raise InvalidRequestError("a second header; accepted: one, first", field="header")
        yield part
