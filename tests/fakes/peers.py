"""The services a worker talks to: recorders behind real servers that can be stopped and restarted."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from functools import partial
from typing import Any, Self

import grpc

from tlt_common.domain.arm import ArmWindow
from tlt_common.domain.fleet import DrafterWish, Lease, Revocation, WorkerHello, WorkerState, WorkerStatus
from tlt_common.domain.hidden import CapturePolicy, EncodedFrame
from tlt_common.domain.tuner import Posterior
from tlt_common.rpc.server import Service, serving
from tlt_common.wire import coordinator, hidden, tuner

Context = grpc.aio.ServicerContext[Any, Any]
Order = Lease | Revocation | DrafterWish


class Peer:
    """A service that keeps its address when it is restarted."""

    def __init__(self, name: str, add: Callable[[grpc.aio.Server], None]) -> None:
        self._service = Service(name=name, add=add)
        self._server = AsyncExitStack()
        self.address = "127.0.0.1:0"

    async def __aenter__(self) -> Self:
        server = await self._server.enter_async_context(serving(self.address, self._service))
        self.address = f"127.0.0.1:{server.port}"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._server.aclose()


class FakeCoordinator(coordinator.Servicer):
    """
    Records what workers report; sends what is put into `orders`.

    Attributes:
        hellos, statuses: Messages from workers, oldest first.
        changed: Notified at every status.
    """

    def __init__(self) -> None:
        self.hellos: list[WorkerHello] = []
        self.statuses: list[WorkerStatus] = []
        self.orders: asyncio.Queue[Order] = asyncio.Queue()
        self.changed = asyncio.Condition()
        self._looked_at = 0
        self.peer = Peer(coordinator.SERVICE_NAME, partial(coordinator.add_servicer, self))

    async def HoldLease(
        self, request_iterator: AsyncIterator[coordinator.pb.HoldLeaseRequest], context: Context
    ) -> AsyncIterator[coordinator.pb.HoldLeaseResponse]:
        recording = asyncio.ensure_future(self._record(request_iterator))
        try:
            while True:
                yield coordinator.order_to_pb(await self.orders.get())
        finally:
            recording.cancel()

    async def until(self, holds: Callable[[WorkerStatus], bool]) -> WorkerStatus:
        """Wait for the next status that satisfies the condition; earlier ones are not checked again."""
        async with asyncio.timeout(20), self.changed:
            while True:
                for status in self.statuses[self._looked_at :]:
                    self._looked_at += 1
                    if holds(status):
                        return status
                await self.changed.wait()

    async def until_state(self, state: WorkerState) -> WorkerStatus:
        return await self.until(lambda status: status.state is state)

    async def _record(self, requests: AsyncIterator[coordinator.pb.HoldLeaseRequest]) -> None:
        async for message in requests:
            report = coordinator.report_from_pb(message)
            async with self.changed:
                if isinstance(report, WorkerHello):
                    self.hellos.append(report)
                else:
                    self.statuses.append(report)
                self.changed.notify_all()


class FakeCache(hidden.Servicer):
    """Stores frames; enables capture of everything."""

    def __init__(self) -> None:
        self.frames: asyncio.Queue[EncodedFrame] = asyncio.Queue()
        self.policies: asyncio.Queue[CapturePolicy] = asyncio.Queue()
        self.peer = Peer(hidden.SERVICE_NAME, partial(hidden.add_servicer, self))

    async def Put(
        self, request_iterator: AsyncIterator[hidden.pb.PutRequest], context: Context
    ) -> hidden.pb.PutResponse:
        kept = 0
        async for message in request_iterator:
            self.frames.put_nowait(hidden.frame_from_pb(message))
            kept += 1
        return hidden.pb.PutResponse(kept_count=kept)

    async def WatchPolicy(
        self, request: hidden.pb.WatchPolicyRequest, context: Context
    ) -> AsyncIterator[hidden.pb.WatchPolicyResponse]:
        yield hidden.policy_to_pb(CapturePolicy())
        while True:
            yield hidden.policy_to_pb(await self.policies.get())


class FakeTuner(tuner.Servicer):
    """Records windows; sends what is put into `posteriors`."""

    def __init__(self) -> None:
        self.windows: asyncio.Queue[tuple[ArmWindow, ...]] = asyncio.Queue()
        self.posteriors: asyncio.Queue[Posterior] = asyncio.Queue()
        self.peer = Peer(tuner.SERVICE_NAME, partial(tuner.add_servicer, self))

    async def ReportWindow(
        self, request: tuner.pb.ReportWindowRequest, context: Context
    ) -> tuner.pb.ReportWindowResponse:
        self.windows.put_nowait(tuple(map(tuner.window_from_pb, request.arms)))
        return tuner.pb.ReportWindowResponse()

    async def WatchPosterior(
        self, request: tuner.pb.WatchPosteriorRequest, context: Context
    ) -> AsyncIterator[tuner.pb.WatchPosteriorResponse]:
        while True:
            yield tuner.posterior_to_pb(await self.posteriors.get())
