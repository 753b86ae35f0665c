"""Tells the coordinator how many requests wait: it is what calls workers back from training."""

import asyncio
from typing import Never

from tlt_common.config.base import TlsSettings
from tlt_common.errors import TltError
from tlt_common.rpc.channel import connect
from tlt_common.rpc.errors import translated
from tlt_common.telemetry import metrics
from tlt_common.wire import coordinator as wire


class QueueReport:
    """The latest depth; what changes while a report is under way goes into the next one."""

    def __init__(self, coordinator: str, gateway_id: str, *, report_s: float, tls: TlsSettings | None) -> None:
        self._coordinator = coordinator
        self._gateway_id = gateway_id
        self._report_s = report_s
        self._tls = tls
        self._queued = 0
        self._changed = asyncio.Event()

    def update(self, queued: int) -> None:
        """So many wait now."""
        self._queued = queued
        self._changed.set()

    async def run(self) -> Never:
        """Live until cancelled. Rollouts do not need the coordinator: a report that fails is counted, no more."""
        async with connect(self._coordinator, to="coordinator", tls=self._tls) as channel:
            stub = wire.Stub(channel)
            while True:
                self._changed.clear()
                request = wire.pb.ReportQueueRequest(gateway_id=self._gateway_id, queued_count=self._queued)
                try:
                    with translated():
                        await stub.ReportQueue(request, timeout=self._report_s)
                except TltError:
                    metrics.GATEWAY_REPORT_FAILURES.inc()
                    # Without the pause a missing coordinator would be asked as fast as requests come.
                    await asyncio.sleep(self._report_s)
                await self._until_due()

    async def _until_due(self) -> None:
        try:
            async with asyncio.timeout(self._report_s):
                await self._changed.wait()
        except TimeoutError:
            return
