"""The worker's one stream to the coordinator: its state goes up, leases and wishes come down."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Never, TypeAlias

from tlt_common.config.base import TlsSettings
from tlt_common.domain.fleet import DrafterWish, Lease, Revocation, WorkerHello, WorkerStatus
from tlt_common.rpc.channel import connect
from tlt_common.wire import coordinator as wire
from tlt_worker.following import follow

STATUS_EVERY_S = 1.0
"""A coordinator declares a worker down after some of these."""

Order: TypeAlias = Lease | Revocation | DrafterWish


class LeaseStream:
    """
    Keeps the stream open, for as long as it takes.

    While the coordinator is away nothing is lost but time: the lease runs out by itself, rollouts go on.
    """

    def __init__(
        self,
        coordinator: str,
        hello: WorkerHello,
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

    def poke(self) -> None:
        """Something of the status changed: tell the coordinator now."""
        self._changed.set()

    async def run(self) -> Never:
        """Live until cancelled."""
        async with connect(self._coordinator, to="coordinator", tls=self._tls) as channel:
            stub = wire.Stub(channel)
            await follow("coordinator", lambda: stub.HoldLease(self._reports()), self._take)

    def _take(self, message: wire.pb.HoldLeaseResponse) -> None:
        self._obey(wire.order_from_pb(message))

    async def _reports(self) -> AsyncIterator[wire.pb.HoldLeaseRequest]:
        yield wire.report_to_pb(self._hello)
        while True:
            self._changed.clear()
            yield wire.report_to_pb(self._status())
            try:
                async with asyncio.timeout(STATUS_EVERY_S):
                    await self._changed.wait()
            except TimeoutError:
                continue
