"""Sends captured hidden states from the engine to the cache service, which decides what to capture."""

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

PUT_S = 10.0
"""Timeout of Put for one batch, in seconds; a slower cache counts as unreachable."""
OFF = CapturePolicy(enabled=False)
_WATCH_POLICY = wire.pb.WatchPolicyRequest()


class FrameSender:
    """Sends captured frames to the cache, and applies the cache's capture policy to the engine."""

    def __init__(self, engine: Engine, cache: str, *, tls: TlsSettings | None = None) -> None:
        self._engine = engine
        self._cache = cache
        self._tls = tls
        engine.set_capture(OFF)

    async def run(self) -> Never:
        """Run until cancelled."""
        async with connect(self._cache, to="cache", tls=self._tls) as channel, asyncio.TaskGroup() as parts:
            stub = wire.Stub(channel)
            parts.create_task(self._send(channel), name="capture-send")
            policies = follow("cache", lambda: stub.WatchPolicy(_WATCH_POLICY), self._apply, lost=self._disable)
            parts.create_task(policies, name="capture-policy")
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
                metrics.FRAMES_DROPPED.labels(reason="refused").inc(response.dropped_count)

    def _apply(self, message: wire.pb.WatchPolicyResponse) -> None:
        self._engine.set_capture(wire.policy_from_pb(message))

    def _disable(self) -> None:
        self._engine.set_capture(OFF)
