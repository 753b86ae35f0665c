"""The coordinator's servicer with timing between it and gRPC."""

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable

from tlt_common.aio import Signal
from tlt_common.wire import coordinator as wire
from tlt_coordinator.coordinator import Coordinator
from tlt_coordinator.servicer import Context, CoordinatorServicer


class TimedServicer(CoordinatorServicer):
    """Times the answers to workers that took their device back, and counts messages."""

    def __init__(self, coordinator: Coordinator, tasks: asyncio.TaskGroup) -> None:
        super().__init__(coordinator, tasks)
        self.decisions_ms: list[float] = []
        self.reports = 0
        self.connected = 0
        """Streams that are open."""
        self.lent = 0
        """Leases that were sent and not revoked."""
        self.recalled = Signal()
        """A lease was revoked although its worker had not taken its device back."""
        self.changed = Signal()
        """Streams or leases were counted."""

    async def HoldLease(  # noqa: N802 - the contract's name
        self, request_iterator: AsyncIterator[wire.pb.HoldLeaseRequest], context: Context
    ) -> AsyncGenerator[wire.pb.HoldLeaseResponse, None]:
        asked_s: float | None = None
        epoch = 0

        async def reports() -> AsyncIterator[wire.pb.HoldLeaseRequest]:
            nonlocal asked_s
            async for message in request_iterator:
                self.reports += 1
                if message.status.running_count and epoch:
                    asked_s = time.perf_counter()
                yield message

        self._count(connected=1)
        try:
            async for order in super().HoldLease(reports(), context):
                match order.WhichOneof("part"):
                    case "grant" if order.grant.epoch > epoch:
                        self._count(lent=1 if not epoch else 0)
                        epoch = order.grant.epoch
                    case "revoke":
                        if asked_s is None:
                            self.recalled.set()
                        else:
                            self.decisions_ms.append((time.perf_counter() - asked_s) * 1e3)
                        self._count(lent=-1 if epoch else 0)
                        asked_s, epoch = None, 0
                yield order
        finally:
            self._count(connected=-1, lent=-1 if epoch else 0)

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait until a condition on the counts holds."""
        seen = self.changed.count
        while not holds():
            seen = await self.changed.beyond(seen)

    def _count(self, *, connected: int = 0, lent: int = 0) -> None:
        self.connected += connected
        self.lent += lent
        if connected or lent:
            self.changed.set()
