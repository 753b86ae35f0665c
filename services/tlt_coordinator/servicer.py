"""tlt.coordinator.v1 on the wire: decode, delegate, encode."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any, TypeAlias

import grpc

from tlt_common.domain.fleet import WorkerHello, WorkerStatus
from tlt_common.domain.ids import DrafterVersion, WorkerId
from tlt_common.errors import InvalidRequestError
from tlt_common.wire import coordinator as wire
from tlt_coordinator.coordinator import Coordinator
from tlt_coordinator.drafters import Publication
from tlt_coordinator.post import Post
from tlt_coordinator.registry import Seat

Context: TypeAlias = grpc.aio.ServicerContext[Any, Any]

HELLO_S = 5.0
"""A stream that says nothing for so long is not a worker's."""


class CoordinatorServicer(wire.Servicer):
    """
    Args:
        post: Who answers, if anybody does.
        tasks: Owns the listening half of each worker's stream; the other half is the call itself.
    """

    def __init__(self, post: Post, tasks: asyncio.TaskGroup) -> None:
        self._post = post
        self._tasks = tasks

    async def HoldLease(
        self, request_iterator: AsyncIterator[wire.pb.HoldLeaseRequest], context: Context
    ) -> AsyncIterator[wire.pb.HoldLeaseResponse]:
        reports = (wire.report_from_pb(message) async for message in request_iterator)
        hello = await _hello(reports)
        coordinator = self._post.coordinator
        seat = coordinator.join(hello)
        listening = self._tasks.create_task(_listen(coordinator, reports, seat), name=f"listen-{seat.hello.worker_id}")
        try:
            async for order in seat.outbox.orders():
                yield wire.order_to_pb(order)
        finally:
            listening.cancel()
            coordinator.leave(seat)

    async def WatchFleet(
        self, request: wire.pb.WatchFleetRequest, context: Context
    ) -> AsyncIterator[wire.pb.WatchFleetResponse]:
        async for members in self._post.coordinator.watch():
            yield wire.pb.WatchFleetResponse(members=map(wire.member_to_pb, members))

    async def ReportQueue(self, request: wire.pb.ReportQueueRequest, context: Context) -> wire.pb.ReportQueueResponse:
        self._post.coordinator.report_queue(request.gateway_id, request.queued_count)
        return wire.pb.ReportQueueResponse()

    async def PublishDrafter(
        self, request: wire.pb.PublishDrafterRequest, context: Context
    ) -> wire.pb.PublishDrafterResponse:
        publication = Publication(
            base=DrafterVersion(request.base_version),
            uri=request.uri,
            worker_id=WorkerId(request.worker_id),
            held_out_top1=request.held_out_top1,
        )
        wish = await self._post.coordinator.publish(publication)
        return wire.pb.PublishDrafterResponse(drafter_version=wish.version)

    async def SetLending(self, request: wire.pb.SetLendingRequest, context: Context) -> wire.pb.SetLendingResponse:
        return wire.pb.SetLendingResponse(was_enabled=self._post.coordinator.set_lending(enabled=request.enabled))

    async def GetFleet(self, request: wire.pb.GetFleetRequest, context: Context) -> wire.pb.GetFleetResponse:
        return wire.fleet_to_pb(self._post.coordinator.fleet())


async def _listen(coordinator: Coordinator, reports: AsyncIterator[WorkerHello | WorkerStatus], seat: Seat) -> None:
    """Take what a worker reports until it hangs up. Its mistakes end the call, nothing else."""
    try:
        async for report in reports:
            coordinator.report(seat, _status(report))
    except InvalidRequestError as error:
        seat.outbox.close(error)
    else:
        seat.outbox.close()


async def _hello(reports: AsyncIterator[WorkerHello | WorkerStatus]) -> WorkerHello:
    try:
        async with asyncio.timeout(HELLO_S):
            hello = await anext(reports, None)
    except TimeoutError as error:
        raise InvalidRequestError(f"no hello within {HELLO_S:g} s", field="hello") from error
    if not isinstance(hello, WorkerHello):
        raise InvalidRequestError("the first message is no hello; accepted: hello, then statuses", field="hello")
    return hello


def _status(report: WorkerHello | WorkerStatus) -> WorkerStatus:
    if isinstance(report, WorkerHello):
        raise InvalidRequestError("a second hello; accepted: one, first", field="hello")
    return report
