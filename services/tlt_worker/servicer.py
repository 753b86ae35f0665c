"""gRPC servicer of tlt.worker.v1: decodes, delegates, encodes."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any, TypeAlias

import grpc

from tlt_common.domain.ids import RequestId
from tlt_common.errors import InvalidRequestError
from tlt_common.rpc.drain import Drain
from tlt_common.wire import transfer
from tlt_common.wire import worker as wire
from tlt_worker.requests.request_stream import RequestStream
from tlt_worker.worker import Worker

Context: TypeAlias = grpc.aio.ServicerContext[Any, Any]


class WorkerServicer(wire.Servicer):
    def __init__(self, worker: Worker, drain: Drain) -> None:
        self._worker = worker
        self._drain = drain
        self._streams: set[RequestStream] = set()

    def close(self) -> None:
        """End the streams of requests without running ones, so that a stopping server need not wait for them."""
        for stream in self._streams:
            stream.close()

    async def GenerateMany(
        self, request_iterator: AsyncIterator[wire.pb.GenerateManyRequest], context: Context
    ) -> AsyncIterator[wire.pb.GenerateManyResponse]:
        stream = RequestStream(self._worker.generation.generate, self._drain, kept=self._worker.kept)
        self._streams.add(stream)
        try:
            async with aclosing(stream.parts(wire.requests_from_pb(request_iterator))) as messages:
                async for parts in messages:
                    yield wire.parts_to_pb(parts)
        finally:
            self._streams.discard(stream)

    async def Abort(self, request: wire.pb.AbortRequest, context: Context) -> wire.pb.AbortResponse:
        names = [RequestId(request_id) for request_id in request.request_ids]
        aborted = await self._worker.generation.abort(names, owner=request.owner)
        return wire.pb.AbortResponse(aborted_count=len(aborted), request_ids=sorted(aborted))

    async def Announce(self, request: wire.pb.AnnounceRequest, context: Context) -> wire.pb.AnnounceResponse:
        # In a thread, between whose steps the event loop runs: there may be thousands of prompts.
        prompts, samples = await asyncio.to_thread(wire.announced_from_pb, request)
        self._worker.ahead.announce(request.owner, prompts, samples)
        return wire.pb.AnnounceResponse()

    async def TakeKept(self, request: wire.pb.TakeKeptRequest, context: Context) -> wire.pb.TakeKeptResponse:
        return wire.kept_to_pb(self._worker.kept.take(request.key))

    async def StageWeights(
        self, request_iterator: AsyncIterator[wire.pb.StageWeightsRequest], context: Context
    ) -> wire.pb.StageWeightsResponse:
        order, tensors = await wire.order_and_tensors(aiter(request_iterator))
        staged_bytes, digest = await self._worker.weights.stage(order, tensors)
        return wire.pb.StageWeightsResponse(staged_bytes=staged_bytes, digest=digest)

    async def CommitWeights(
        self, request: wire.pb.CommitWeightsRequest, context: Context
    ) -> wire.pb.CommitWeightsResponse:
        release = wire.release_from_pb(request.release, request.policy_version)
        pause_s = await self._worker.weights.commit(release)
        return wire.pb.CommitWeightsResponse(pause_s=pause_s)

    async def FetchWeights(
        self, request: wire.pb.FetchWeightsRequest, context: Context
    ) -> AsyncIterator[wire.pb.FetchWeightsResponse]:
        if request.from_piece < 0:
            raise InvalidRequestError(f"from_piece is {request.from_piece}; accepted: 0 or above", field="from_piece")
        log = await self._worker.weights.held(wire.release_from_pb(request.release)).log()
        async for chunk in log.follow(request.from_piece):
            yield wire.fetched_to_pb(chunk)
        yield wire.fetched_to_pb(log.end)

    async def FoldWeights(
        self, request_iterator: AsyncIterator[wire.pb.FoldWeightsRequest], context: Context
    ) -> AsyncIterator[wire.pb.FoldWeightsResponse]:
        base, uri, changes = await transfer.base_and_changes(aiter(request_iterator))
        async with aclosing(self._worker.weights.fold(base, uri, changes)) as chunks:
            async for chunk in chunks:
                yield wire.with_tensor(wire.pb.FoldWeightsResponse, chunk)

    async def DiscardWeights(
        self, request: wire.pb.DiscardWeightsRequest, context: Context
    ) -> wire.pb.DiscardWeightsResponse:
        await self._worker.weights.discard(wire.release_from_pb(request.release, request.policy_version))
        return wire.pb.DiscardWeightsResponse()

    async def JoinGroup(self, request: wire.pb.JoinGroupRequest, context: Context) -> wire.pb.JoinGroupResponse:
        await self._worker.receiver.join(transfer.group_from_pb(request))
        return wire.pb.JoinGroupResponse()

    async def LeaveGroup(self, request: wire.pb.LeaveGroupRequest, context: Context) -> wire.pb.LeaveGroupResponse:
        await self._worker.receiver.leave(request.name)
        return wire.pb.LeaveGroupResponse()

    async def ReceiveTensors(
        self, request: wire.pb.ReceiveTensorsRequest, context: Context
    ) -> wire.pb.ReceiveTensorsResponse:
        collected = await self._worker.receiver.receive(transfer.broadcast_from_pb(request))
        return wire.pb.ReceiveTensorsResponse(collected=transfer.collected_to_pb(collected))

    async def CollectTensors(
        self, request_iterator: AsyncIterator[wire.pb.CollectTensorsRequest], context: Context
    ) -> wire.pb.CollectTensorsResponse:
        part, content = await transfer.part_and_content(aiter(request_iterator))
        collected = await self._worker.receiver.collect(content, part)
        return wire.pb.CollectTensorsResponse(collected=transfer.collected_to_pb(collected))

    async def FetchCollected(
        self, request: wire.pb.FetchCollectedRequest, context: Context
    ) -> AsyncIterator[wire.pb.FetchCollectedResponse]:
        async for chunk in self._worker.receiver.collected(transfer.fetch_from_pb(request)):
            yield wire.with_tensor(wire.pb.FetchCollectedResponse, chunk)

    async def DropCollected(
        self, request: wire.pb.DropCollectedRequest, context: Context
    ) -> wire.pb.DropCollectedResponse:
        return wire.pb.DropCollectedResponse(collected=transfer.collected_to_pb(await self._worker.receiver.drop()))

    async def ReadAdapter(
        self, request_iterator: AsyncIterator[wire.pb.ReadAdapterRequest], context: Context
    ) -> AsyncIterator[wire.pb.ReadAdapterResponse]:
        source = await transfer.adapter_from_pb(aiter(request_iterator))
        async with aclosing(self._worker.receiver.adapter(source)) as chunks:
            async for chunk in chunks:
                yield wire.with_tensor(wire.pb.ReadAdapterResponse, chunk)

    async def ReleaseMemory(
        self, request: wire.pb.ReleaseMemoryRequest, context: Context
    ) -> wire.pb.ReleaseMemoryResponse:
        await self._worker.memory.release(
            request.tags, limit_s=request.limit_s if request.HasField("limit_s") else None
        )
        return wire.pb.ReleaseMemoryResponse()

    async def ResumeMemory(
        self, request: wire.pb.ResumeMemoryRequest, context: Context
    ) -> wire.pb.ResumeMemoryResponse:
        await self._worker.memory.resume(request.tags)
        return wire.pb.ResumeMemoryResponse()

    async def Watch(
        self, request_iterator: AsyncIterator[wire.pb.WatchRequest], context: Context
    ) -> AsyncIterator[wire.pb.WatchResponse]:
        demands = wire.demands_from_pb(request_iterator)
        async with aclosing(self._worker.watchers.watch(demands)) as reports:
            async for report in reports:
                yield wire.report_to_pb(report)
