"""tlt.hidden.v1, for engines and trainers."""

from collections.abc import AsyncIterator
from typing import Any, TypeAlias

import grpc

from tlt_cache.base import FrameStore
from tlt_cache.gate import CaptureGate
from tlt_common.errors import CacheUnavailableError, InvalidRequestError
from tlt_common.telemetry import metrics
from tlt_common.wire import hidden as wire

Context: TypeAlias = grpc.aio.ServicerContext[Any, Any]


class HiddenStateServicer(wire.Servicer):
    """Decodes, delegates, encodes."""

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
            frame = wire.frame_from_pb(request.frame)
            try:
                was_kept = await self._store.put(frame)
            except CacheUnavailableError as error:
                metrics.CACHE_FRAMES.labels(outcome="dropped").inc()
                self._gate.note(reachable=False, reason=error.message)
                raise
            metrics.CACHE_FRAMES.labels(outcome="kept" if was_kept else "dropped").inc()
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
            max_tokens=request.max_tokens, seed=request.seed, min_policy_version=request.min_policy_version
        )
        async for frame in frames:
            metrics.CACHE_TAKEN_TOKENS.inc(frame.token_count)
            yield wire.pb.TakeResponse(frame=wire.frame_to_pb(frame))

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
