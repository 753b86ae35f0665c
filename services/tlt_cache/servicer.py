"""gRPC servicer of tlt.hidden.v1, for engines and trainers."""

from collections.abc import AsyncIterator
from typing import Any, TypeAlias

import grpc

from tlt_cache.frame_store import FrameStore
from tlt_cache.gate import CaptureGate
from tlt_common.errors import CacheUnavailableError, InvalidRequestError
from tlt_common.telemetry import metrics
from tlt_common.wire import hidden as wire

Context: TypeAlias = grpc.aio.ServicerContext[Any, Any]


class HiddenStateServicer(wire.Servicer):
    """Reads headers and passes blobs on; never decodes token ids or states."""

    def __init__(self, store: FrameStore, gate: CaptureGate) -> None:
        self._store = store
        self._gate = gate

    async def Put(
        self,
        request_iterator: AsyncIterator[wire.pb.PutRequest],
        context: Context,
    ) -> wire.pb.PutResponse:
        kept = dropped = 0
        async for request in request_iterator:
            frame = wire.frame_from_pb(request)
            try:
                was_kept = await self._store.put(frame)
            except CacheUnavailableError as error:
                self._gate.note(reachable=False, reason=error.message)
                raise
            metrics.CACHE_FRAMES.inc(was_kept)
            kept, dropped = kept + was_kept, dropped + (not was_kept)
        return wire.pb.PutResponse(kept_count=kept, dropped_count=dropped)

    async def Take(
        self,
        request: wire.pb.TakeRequest,
        context: Context,
    ) -> AsyncIterator[wire.pb.TakeResponse]:
        if request.max_tokens < 1:
            raise InvalidRequestError(f"max_tokens is {request.max_tokens}; accepted: 1 and above", field="max_tokens")
        frames = self._store.take(
            max_tokens=request.max_tokens,
            seed=request.seed,
            min_policy_version=request.min_policy_version,
            newer_than=request.newer_than,
        )
        async for frame in frames:
            metrics.CACHE_TAKEN_TOKENS.inc(frame.entry.tokens)
            yield wire.pb.TakeResponse(frame=frame.blob, cursor=frame.entry.sequence)

    async def WatchPolicy(
        self,
        request: wire.pb.WatchPolicyRequest,
        context: Context,
    ) -> AsyncIterator[wire.pb.WatchPolicyResponse]:
        async for policy in self._gate.watch():
            yield wire.policy_to_pb(policy)

    async def GetUsage(
        self,
        request: wire.pb.GetUsageRequest,
        context: Context,
    ) -> wire.pb.GetUsageResponse:
        return wire.usage_to_pb(await self._store.usage())
