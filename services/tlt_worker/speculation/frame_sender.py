"""
Sends captured hidden states from the engine to the cache service, which decides what to capture.

While the queue of frames is nearly full because the cache is too slow, capture stops: the engine would only copy states
to drop them.
"""

import asyncio
from typing import Never

import grpc

from tlt_common.config.base import TlsSettings
from tlt_common.domain.hidden import CapturePolicy
from tlt_common.errors import TltError
from tlt_common.rpc.channel import connect
from tlt_common.rpc.errors import translated
from tlt_common.rpc.follow import follow
from tlt_common.telemetry import metrics
from tlt_common.telemetry.log import get_logger
from tlt_common.wire import hidden as wire
from tlt_worker.engine.base import Engine

log = get_logger(__name__)

FULL, ROOMY = 0.75, 0.25
"""Shares of the queue in use at which capture stops and resumes."""
LOOK_S = 0.1
"""Seconds between looks at the queue: a tenth of a second of states fits into the rest of it."""
PUT_S = 10.0
"""Timeout of Put for one batch, in seconds; a slower cache counts as unreachable."""
OFF = CapturePolicy(enabled=False)
_WATCH_POLICY = wire.pb.WatchPolicyRequest()


class QueueLimit:
    """Whether the queue of frames has room, with hysteresis between stopping and resuming. Pure."""

    def __init__(self) -> None:
        self.is_full = False

    def look(self, used: float) -> bool:
        """Record the share of the queue in use; return whether the answer changed."""
        before = self.is_full
        self.is_full = used >= (ROOMY if before else FULL)
        return self.is_full != before


class FrameSender:
    """Sends captured frames to the cache, and applies the cache's capture policy to the engine."""

    def __init__(self, engine: Engine, cache: str, *, tls: TlsSettings | None = None) -> None:
        self._engine = engine
        self._cache = cache
        self._tls = tls
        self._policy = OFF
        self._limit = QueueLimit()
        engine.set_capture(OFF)

    async def run(self) -> Never:
        """Run until cancelled."""
        async with connect(self._cache, to="cache", tls=self._tls) as channel, asyncio.TaskGroup() as parts:
            stub = wire.Stub(channel)
            parts.create_task(self._send(channel), name="capture-send")
            policies = follow("cache", lambda: stub.WatchPolicy(_WATCH_POLICY), self._apply, lost=self._disable)
            parts.create_task(policies, name="capture-policy")
            parts.create_task(self._watch_queue(), name="capture-room")
        raise AssertionError("capture parts never return")

    async def _send(self, channel: grpc.aio.Channel) -> None:
        stub = wire.Stub(channel)
        async for batch in self._engine.frame_batches():
            try:
                with translated():
                    response = await stub.Put(map(wire.put_request, batch), timeout=PUT_S)
            except TltError as error:
                metrics.FRAMES_DROPPED.labels(reason="refused").inc(len(batch))
                log.warning("frames_lost", count=len(batch), error=error.message)
            else:
                metrics.FRAMES_SENT.inc(response.kept_count)
                metrics.FRAMES_DROPPED.labels(reason="refused").inc(response.dropped_count + response.refused_count)
                if response.refused_count:
                    log.warning("frames_refused", count=response.refused_count, error=response.refused_reason)

    async def _watch_queue(self) -> Never:
        while True:
            used = self._engine.frames_used
            if self._limit.look(used):
                metrics.CAPTURE_PAUSED.set(self._limit.is_full)
                log.info("capture_paused" if self._limit.is_full else "capture_resumed", queue_used=round(used, 2))
                self._set()
            await asyncio.sleep(LOOK_S)

    def _apply(self, message: wire.pb.WatchPolicyResponse) -> None:
        self._policy = wire.policy_from_pb(message)
        self._set()

    def _disable(self) -> None:
        self._policy = OFF
        self._set()

    def _set(self) -> None:
        self._engine.set_capture(OFF if self._limit.is_full else self._policy)
