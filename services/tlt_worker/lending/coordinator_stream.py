"""The worker's stream to the coordinator: sends its status, receives leases and drafters to load."""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Never, TypeAlias

from tlt_common.config.base import TlsSettings
from tlt_common.domain.fleet import DrafterWish, Lease, ReportInterval, Revocation, WorkerHello, WorkerStatus
from tlt_common.rpc.channel import connect
from tlt_common.rpc.follow import follow
from tlt_common.wire import coordinator as wire

STATUS_EVERY_S = 1.0
"""Status interval in seconds until the coordinator sets another; it declares a worker down after several missed
reports."""

Order: TypeAlias = Lease | Revocation | DrafterWish


class CoordinatorStream:
    """
    Keeps the stream open, reconnecting until cancelled.

    While the coordinator is unreachable, only training time is lost: the lease expires by itself, and rollouts
    continue.
    """

    def __init__(
        self,
        coordinator: str,
        hello: Callable[[], WorkerHello],
        *,
        status: Callable[[], WorkerStatus],
        obey: Callable[[Order], None],
        tls: TlsSettings | None = None,
    ) -> None:
        self._coordinator = coordinator
        self._hello = hello
        self._status = status
        self._obey = obey
        self._tls = tls
        self._changed = asyncio.Event()
        self._every_s = STATUS_EVERY_S

    def poke(self) -> None:
        """Report a changed status to the coordinator now."""
        self._changed.set()

    async def run(self) -> Never:
        """Run until cancelled."""
        async with connect(self._coordinator, to="coordinator", tls=self._tls) as channel:
            stub = wire.Stub(channel)
            await follow("coordinator", lambda: stub.HoldLease(self._reports()), self._receive)

    def _receive(self, message: wire.pb.HoldLeaseResponse) -> None:
        order = wire.order_from_pb(message)
        if isinstance(order, ReportInterval):
            self._every_s = order.seconds
        else:
            self._obey(order)

    async def _reports(self) -> AsyncIterator[wire.pb.HoldLeaseRequest]:
        self._every_s = STATUS_EVERY_S  # another coordinator may expect it
        yield wire.report_to_pb(replace(self._hello(), accepts_report_interval=True))
        while True:
            self._changed.clear()
            yield wire.report_to_pb(self._status())
            try:
                async with asyncio.timeout(self._every_s):
                    await self._changed.wait()
            except TimeoutError:
                continue
