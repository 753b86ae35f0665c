"""gRPC servicer of tlt.hidden.v1, for engines and trainers."""

from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from typing import Any, TypeAlias

import grpc

from tlt_cache.frame_store import FrameStore
from tlt_cache.gate import CaptureGate
from tlt_common.aio import one_ahead
from tlt_common.domain.hidden import EncodedFrame
from tlt_common.errors import CacheUnavailableError, InvalidRequestError
from tlt_common.telemetry import metrics
from tlt_common.telemetry.log import get_logger
from tlt_common.wire import hidden as wire

Context: TypeAlias = grpc.aio.ServicerContext[Any, Any]

log = get_logger(__name__)

BATCH_BYTES = 4 * 2**20
"""Frames are written in batches of this size, one round trip to the store each. A call holds two in memory: one is
received while the other is written."""


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
        kept = received = 0
        refused = list[InvalidRequestError]()
        async with aclosing(one_ahead(_batches(request_iterator, refused))) as batches:
            async for batch in batches:
                kept, received = kept + await self._store_all(batch), received + len(batch)
        if refused:
            metrics.CACHE_REFUSED_FRAMES.inc(len(refused))
            log.warning("frames_refused", count=len(refused), field=refused[0].field, error=refused[0].message)
        return wire.pb.PutResponse(
            kept_count=kept,
            dropped_count=received - kept,
            refused_count=len(refused),
            refused_reason=refused[0].message if refused else "",
        )

    async def _store_all(self, batch: Sequence[EncodedFrame]) -> int:
        try:
            kept = await self._store.put(batch)
        except CacheUnavailableError as error:
            self._gate.note(reachable=False, reason=error.message)
            raise
        metrics.CACHE_FRAMES.inc(kept)
        metrics.CACHE_DROPPED_FRAMES.inc(len(batch) - kept)
        return kept

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
            newer_than=wire.cursors_from_pb(request),
        )
        async for frame in frames:
            metrics.CACHE_TAKEN_TOKENS.inc(frame.entry.tokens)
            yield wire.pb.TakeResponse(frame=frame.blob, cursor=frame.entry.sequence, shard=frame.entry.shard)

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


async def _batches(
    requests: AsyncIterator[wire.pb.PutRequest], refused: list[InvalidRequestError]
) -> AsyncIterator[list[EncodedFrame]]:
    """Yield valid frames in batches. Collects the reasons for refused frames, which do not affect others."""
    batch, size = list[EncodedFrame](), 0
    async for request in requests:
        try:
            frame = wire.frame_from_pb(request)
        except InvalidRequestError as error:
            refused.append(error)
            continue
        batch.append(frame)
        size += frame.size_bytes
        if size >= BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
