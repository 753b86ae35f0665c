"""The lease stream of a worker without the worker: sends what the test tells it and returns the orders it receives."""

import asyncio
from collections.abc import Iterable
from types import TracebackType
from typing import Self, TypeVar

from tlt_common.config.base import TlsSettings
from tlt_common.domain.fleet import DrafterWish, Lease, Revocation, WorkerHello, WorkerState, WorkerStatus
from tlt_common.domain.ids import WorkerId
from tlt_common.errors import UnavailableError
from tlt_common.rpc.channel import connect
from tlt_common.rpc.errors import translated
from tlt_common.wire import coordinator as wire

ORDER_S = 10.0
IDLE = WorkerStatus(state=WorkerState.IDLE, trainer_ready=True)

Order = TypeVar("Order", Lease, Revocation, DrafterWish)


def hello(name: str) -> WorkerHello:
    return WorkerHello(worker_id=WorkerId(name), address=f"{name}:1", model="tiny", device="cpu", max_running=8)


class LeaseHolder:
    """The stream of one worker. By default it begins with a hello and a status."""

    def __init__(
        self,
        coordinator: str,
        name: str = "w0",
        *,
        opening: Iterable[WorkerHello | WorkerStatus] | None = None,
        tls: TlsSettings | None = None,
    ) -> None:
        self._channel = connect(coordinator, to="coordinator", tls=tls)
        self._opening = (hello(name), IDLE) if opening is None else opening

    async def __aenter__(self) -> Self:
        await self._channel.__aenter__()
        self._call = wire.Stub(self._channel).HoldLease()
        for report in self._opening:
            await self.say(report)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._call.cancel()
        await self._channel.__aexit__(kind, error, traceback)

    async def say(self, report: WorkerHello | WorkerStatus) -> None:
        with translated():
            await self._call.write(wire.report_to_pb(report))

    async def hang_up(self) -> None:
        await self._call.done_writing()

    async def order(self, kind: type[Order]) -> Order:
        """
        Return the next order of that kind, skipping others.

        Raises:
            TltError: The coordinator ended the stream with this error.
        """
        async with asyncio.timeout(ORDER_S):
            while True:
                with translated():
                    message = await self._call.read()
                if not isinstance(message, wire.pb.HoldLeaseResponse):  # gRPC's end-of-stream marker
                    raise UnavailableError("the stream ended")
                if isinstance(order := wire.order_from_pb(message), kind):
                    return order
