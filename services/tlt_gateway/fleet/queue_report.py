"""Reports queued and running requests to the coordinator, which recalls workers from training for queued ones."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Never

from tlt_common.config.base import TlsSettings
from tlt_common.domain.server_info import NO_BUBBLES, Bubbles
from tlt_common.errors import TltError
from tlt_common.load import GatewayLoad
from tlt_common.rpc.channel import connect
from tlt_common.rpc.errors import translated
from tlt_common.telemetry import metrics
from tlt_common.telemetry.optional import optional
from tlt_common.wire import coordinator as wire
from tlt_common.wire.load import load_to_pb

REPORT_S = 0.5
"""Maximum seconds between queue reports to the coordinator, which ignores a queue that it has not heard of for five
seconds; changes are reported immediately."""
LOAD_S = 0.5
"""Seconds between two reports of what runs; queues are reported whenever they change."""


class QueueReport:
    """Reports the latest depth; a change during a report is sent with the next one."""

    def __init__(
        self,
        coordinator: str,
        gateway_id: str,
        *,
        report_s: float,
        tls: TlsSettings | None,
        pause_left_s: Callable[[], float] = lambda: 0.0,
        load: Callable[[], Awaitable[GatewayLoad]] | None = None,
    ) -> None:
        """
        `pause_left_s` returns the remaining seconds of a pause; `load` returns the running requests, or None to report
        none.
        """
        self._coordinator = coordinator
        self._gateway_id = gateway_id
        self._report_s = report_s
        self._tls = tls
        self._pause_left_s = pause_left_s
        self._load = load
        self._load_due_s = 0.0
        self._queued = 0
        self.bubbles = NO_BUBBLES
        """The fleet's, as of the last report."""
        self._changed = asyncio.Event()

    def update(self, queued: int) -> None:
        """Set the current queue depth."""
        self._queued = queued
        self._changed.set()

    async def run(self) -> Never:
        """Run until cancelled. Rollouts do not need the coordinator: a failed report is only counted."""
        async with connect(self._coordinator, to="coordinator", tls=self._tls) as channel:
            stub = wire.Stub(channel)
            while True:
                self._changed.clear()
                request = wire.pb.ReportQueueRequest(
                    gateway_id=self._gateway_id, queued_count=self._queued, pause_left_s=self._pause_left_s()
                )
                if self._load and (now_s := asyncio.get_running_loop().time()) >= self._load_due_s:
                    self._load_due_s = now_s + LOAD_S
                    with optional("load report"):
                        request.load.CopyFrom(load_to_pb(await self._load()))
                try:
                    with translated():
                        answer = await stub.ReportQueue(request, timeout=self._report_s)
                    self.bubbles = Bubbles(total_s=answer.bubble_s, training_s=answer.training_s)
                except TltError:
                    metrics.GATEWAY_REPORT_FAILURES.inc()
                    # Without this delay, an unreachable coordinator would be called on every change of the queue.
                    await asyncio.sleep(self._report_s)
                await self._until_due()

    async def _until_due(self) -> None:
        try:
            async with asyncio.timeout(self._report_s):
                await self._changed.wait()
        except TimeoutError:
            return
