"""gRPC servicer of tlt.rollout.v1: decodes, delegates, encodes."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any, TypeAlias

import grpc

from tlt_common.domain.ids import Epoch
from tlt_common.domain.pause import Pause
from tlt_common.telemetry.tracing import record_response
from tlt_common.wire import rollout as wire
from tlt_gateway.gateway import Gateway

FEW = 64
"""Prompts that are decoded at once."""

Context: TypeAlias = grpc.aio.ServicerContext[Any, Any]


class RolloutServicer(wire.Servicer):
    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def Generate(
        self, request: wire.pb.GenerateRequest, context: Context
    ) -> AsyncIterator[wire.pb.GenerateResponse]:
        prompt = wire.prompt_from_pb(request.prompt)
        async with (
            self._gateway.generating(prompt) as response,
            aclosing(record_response(response, prompt.request_id)) as chunks,
        ):
            async for chunk in chunks:
                yield wire.pb.GenerateResponse(chunk=wire.chunk_to_pb(chunk))

    async def GenerateBatch(
        self, request: wire.pb.GenerateBatchRequest, context: Context
    ) -> AsyncIterator[wire.pb.GenerateBatchResponse]:
        count, samples_each = len(request.prompts), max(1, request.samples_per_prompt)
        parts = count + len(request.samples)
        field = "prompts" if samples_each == 1 else "samples_per_prompt"
        self._gateway.batches.require_fit(max(count * samples_each, len(request.samples)), field=field)
        # In a thread, between whose steps the event loop runs: there may be thousands of prompts.
        batch = await asyncio.to_thread(wire.batch_from_pb, request) if parts > FEW else wire.batch_from_pb(request)
        async with aclosing(self._gateway.batches.run(batch)) as samples:
            async for sample in samples:
                yield wire.sample_to_pb(sample)

    async def Announce(self, request: wire.pb.AnnounceRequest, context: Context) -> wire.pb.AnnounceResponse:
        count, samples_each = len(request.prompts), max(1, request.samples_per_prompt)
        field = "prompts" if samples_each == 1 else "samples_per_prompt"
        self._gateway.batches.require_fit(count * samples_each, field=field)
        batch = (
            await asyncio.to_thread(wire.announced_from_pb, request) if count > FEW else wire.announced_from_pb(request)
        )
        return wire.pb.AnnounceResponse(worker_count=await self._gateway.announcements.announce(batch))

    async def Abort(self, request: wire.pb.AbortRequest, context: Context) -> wire.pb.AbortResponse:
        aborted = await self._gateway.abort(
            wire.aborted_from_pb(request),
            everything=request.all,
            from_peer=request.from_peer,
            authorization=_credential(context),
        )
        return wire.pb.AbortResponse(aborted_count=len(aborted), request_ids=sorted(aborted))

    async def Pause(self, request: wire.pb.PauseRequest, context: Context) -> wire.pb.PauseResponse:
        await self._gateway.pauses.pause(
            wire.pause_from_pb(request),
            from_peer=Pause(epoch=Epoch(request.epoch), left_s=request.left_s) if request.from_peer else None,
            authorization=_credential(context),
        )
        return wire.pb.PauseResponse()

    async def Proceed(self, request: wire.pb.ProceedRequest, context: Context) -> wire.pb.ProceedResponse:
        end = Pause(epoch=Epoch(request.epoch)) if request.from_peer else None
        await self._gateway.pauses.proceed(from_peer=end, authorization=_credential(context))
        return wire.pb.ProceedResponse()

    async def ReleaseMemory(
        self, request: wire.pb.ReleaseMemoryRequest, context: Context
    ) -> wire.pb.ReleaseMemoryResponse:
        limit_s = request.limit_s if request.HasField("limit_s") else None
        return wire.pb.ReleaseMemoryResponse(
            worker_count=await self._gateway.memory.release(request.tags, limit_s=limit_s)
        )

    async def ResumeMemory(
        self, request: wire.pb.ResumeMemoryRequest, context: Context
    ) -> wire.pb.ResumeMemoryResponse:
        return wire.pb.ResumeMemoryResponse(worker_count=await self._gateway.memory.resume(request.tags))

    async def UpdateWeights(
        self, request_iterator: AsyncIterator[wire.pb.UpdateWeightsRequest], context: Context
    ) -> wire.pb.UpdateWeightsResponse:
        update, tensors = await wire.update_and_tensors(aiter(request_iterator))
        return wire.result_to_pb(await self._gateway.weights.update(update, tensors))

    async def GetServerInfo(
        self, request: wire.pb.GetServerInfoRequest, context: Context
    ) -> wire.pb.GetServerInfoResponse:
        return wire.info_to_pb(self._gateway.info)


def _credential(context: Context) -> str | None:
    credential = dict(context.invocation_metadata() or ()).get("authorization")
    return credential if isinstance(credential, str) else None
