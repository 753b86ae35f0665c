"""Hidden states on their way out: from the engine to the cache service, which says what to capture."""

import asyncio
from collections.abc import AsyncIterator
from typing import Never

import grpc

from tlt_common.config.base import TlsSettings
from tlt_common.domain.hidden import CapturePolicy, HiddenFrame
from tlt_common.errors import TltError
from tlt_common.rpc.channel import connect
from tlt_common.rpc.errors import translated
from tlt_common.telemetry import metrics
from tlt_common.telemetry.log import get_logger
from tlt_common.wire import hidden as wire
from tlt_worker.engine.base import Engine
from tlt_worker.following import follow

log = get_logger(__name__)

PUT_S = 10.0
"""A cache that takes longer for one batch is as good as gone."""
OFF = CapturePolicy(enabled=False)
_ASK = wire.pb.WatchPolicyRequest()


class Capture:
    """Carries frames to the cache while it is there. Rollouts never wait: what finds no room is dropped and counted."""

    def __init__(self, engine: Engine, cache: str, *, queue_bytes: int, tls: TlsSettings | None = None) -> None:
        self._engine = engine
        self._cache = cache
        self._tls = tls
        self._room_bytes = queue_bytes
        self._queued: list[HiddenFrame] = []
        self._filled = asyncio.Event()
        engine.set_capture(OFF)

    async def run(self) -> Never:
        """Live until cancelled."""
        async with connect(self._cache, to="cache", tls=self._tls) as channel, asyncio.TaskGroup() as parts:
            stub = wire.Stub(channel)
            parts.create_task(self._collect(), name="capture-collect")
            parts.create_task(self._send(channel), name="capture-send")
            policies = follow("cache", lambda: stub.WatchPolicy(_ASK), self._obey, lost=self._disable)
            parts.create_task(policies, name="capture-policy")
        raise AssertionError("capture parts never return")

    async def _collect(self) -> None:
        async for frame in self._engine.frames():
            if frame.size_bytes > self._room_bytes:
                metrics.FRAMES_DROPPED.labels(where="worker").inc()
                continue
            self._room_bytes -= frame.size_bytes
            self._queued.append(frame)
            self._filled.set()

    async def _send(self, channel: grpc.aio.Channel) -> Never:
        stub = wire.Stub(channel)
        while True:
            await self._filled.wait()
            self._filled.clear()
            batch, self._queued = self._queued, []
            try:
                with translated():
                    await stub.Put(_requests(batch), timeout=PUT_S)
            except TltError as error:
                metrics.FRAMES_DROPPED.labels(where="wire").inc(len(batch))
                log.warning("frames_lost", count=len(batch), error=error.message)
            else:
                metrics.FRAMES_SENT.inc(len(batch))
            finally:
                self._room_bytes += sum(frame.size_bytes for frame in batch)

    def _obey(self, message: wire.pb.WatchPolicyResponse) -> None:
        self._engine.set_capture(wire.policy_from_pb(message))

    def _disable(self) -> None:
        self._engine.set_capture(OFF)


async def _requests(batch: list[HiddenFrame]) -> AsyncIterator[wire.pb.PutRequest]:
    for frame in batch:
        yield wire.pb.PutRequest(frame=wire.frame_to_pb(frame))
