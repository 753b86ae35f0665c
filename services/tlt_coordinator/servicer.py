"""gRPC servicer of tlt.coordinator.v1: decodes, delegates, encodes."""

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from typing import Any, TypeAlias

import grpc

from tlt_common.domain.fleet import Member, MembershipChange, WorkerAccount, WorkerHello, WorkerStatus
from tlt_common.domain.ids import WorkerId
from tlt_common.errors import InvalidRequestError
from tlt_common.wire import coordinator as wire
from tlt_common.wire.load import load_from_pb
from tlt_coordinator.coordinator import Coordinator
from tlt_coordinator.registry import WorkerSession

Context: TypeAlias = grpc.aio.ServicerContext[Any, Any]

MEMBERS_AT_ONCE = 64
"""Workers encoded before other calls run."""

HELLO_S = 5.0
"""Time limit, in seconds, for the first message of a worker's stream."""


class CoordinatorServicer(wire.Servicer):
    """
    Args:
        coordinator: Serves the calls.
        tasks: Owns the receiving half of each worker's stream; the call itself sends.
    """

    def __init__(self, coordinator: Coordinator, tasks: asyncio.TaskGroup) -> None:
        self._coordinator = coordinator
        self._tasks = tasks

    async def HoldLease(
        self, request_iterator: AsyncIterator[wire.pb.HoldLeaseRequest], context: Context
    ) -> AsyncIterator[wire.pb.HoldLeaseResponse]:
        reports = (wire.report_from_pb(message) async for message in request_iterator)
        hello = await _hello(reports)
        session = self._coordinator.join(hello)
        listening = self._tasks.create_task(
            _listen(self._coordinator, reports, session), name=f"listen-{session.hello.worker_id}"
        )
        try:
            async for order in session.outbox.orders():
                yield wire.order_to_pb(order)
        finally:
            listening.cancel()
            self._coordinator.leave(session)

    async def WatchFleet(
        self, request: wire.pb.WatchFleetRequest, context: Context
    ) -> AsyncIterator[wire.pb.WatchFleetResponse]:
        members: dict[WorkerId, Member] = {}
        async for change in self._coordinator.watch():
            if request.accepts_changes:
                yield await _encoded(change)
                continue
            members |= {member.hello.worker_id: member for member in change.joined}
            for worker_id in change.left:
                members.pop(worker_id, None)
            yield await _encoded(MembershipChange(joined=tuple(members.values()), lending=change.lending))

    async def ReportQueue(self, request: wire.pb.ReportQueueRequest, context: Context) -> wire.pb.ReportQueueResponse:
        queue = wire.queue_from_pb(request)
        load = load_from_pb(request.load) if request.HasField("load") else None
        bubbles = self._coordinator.report_queue(*queue)
        if load is not None:
            self._coordinator.report_load(request.gateway_id, load)
        return wire.pb.ReportQueueResponse(bubble_s=bubbles.total_s, training_s=bubbles.training_s)

    async def PublishDrafter(
        self, request: wire.pb.PublishDrafterRequest, context: Context
    ) -> wire.pb.PublishDrafterResponse:
        wish = await self._coordinator.publish(wire.publication_from_pb(request))
        return wire.pb.PublishDrafterResponse(drafter_version=wish.version)

    async def GetDrafter(self, request: wire.pb.GetDrafterRequest, context: Context) -> wire.pb.GetDrafterResponse:
        return wire.newest_to_pb(self._coordinator.drafter)

    async def SetLending(self, request: wire.pb.SetLendingRequest, context: Context) -> wire.pb.SetLendingResponse:
        return wire.pb.SetLendingResponse(was_enabled=self._coordinator.set_lending(enabled=request.enabled))

    async def ExcludeWorkers(
        self, request: wire.pb.ExcludeWorkersRequest, context: Context
    ) -> wire.pb.ExcludeWorkersResponse:
        worker_ids = map(WorkerId, request.worker_ids)
        excluded = await self._coordinator.exclude(worker_ids, excluded=request.excluded)
        return wire.pb.ExcludeWorkersResponse(excluded_worker_ids=excluded)

    async def GetFleet(self, request: wire.pb.GetFleetRequest, context: Context) -> bytes:  # type: ignore[override]
        """Return a serialized GetFleetResponse: gRPC would block the event loop while it serializes all workers."""
        observer = self._coordinator.observer
        parts = [wire.fleet_to_pb(observer.summary()).SerializeToString()]

        def encode(accounts: list[WorkerAccount]) -> None:
            workers = wire.pb.GetFleetResponse(workers=map(wire.account_to_pb, accounts))
            parts.append(workers.SerializeToString())

        async for accounts in observer.accounts(observer.changes_shown(request.max_changes)):
            await observer.pieces.do(partial(encode, accounts))
        return b"".join(parts)  # messages that follow each other are one


async def _encoded(change: MembershipChange) -> wire.pb.WatchFleetResponse:
    """Encode a change, letting other calls run in between, since a fleet can have thousands of workers."""
    message = wire.pb.WatchFleetResponse(
        removed_worker_ids=change.left, is_change=change.is_change, lending=change.lending
    )
    for first in range(0, len(change.joined), MEMBERS_AT_ONCE):
        message.members.extend(map(wire.member_to_pb, change.joined[first : first + MEMBERS_AT_ONCE]))
        await asyncio.sleep(0)
    return message


async def _listen(
    coordinator: Coordinator, reports: AsyncIterator[WorkerHello | WorkerStatus], session: WorkerSession
) -> None:
    """Record a worker's reports until it closes the stream. An invalid report ends this call only."""
    try:
        async for report in reports:
            coordinator.report(session, _status(report))
    except InvalidRequestError as error:
        session.outbox.close(error)
    else:
        session.outbox.close()


async def _hello(reports: AsyncIterator[WorkerHello | WorkerStatus]) -> WorkerHello:
    try:
        async with asyncio.timeout(HELLO_S):
            hello = await anext(reports, None)
    except TimeoutError as error:
        raise InvalidRequestError(f"no hello within {HELLO_S:g} s", field="hello") from error
    if not isinstance(hello, WorkerHello):
        raise InvalidRequestError("the first message is not a hello; accepted: a hello, then statuses", field="hello")
    return hello


def _status(report: WorkerHello | WorkerStatus) -> WorkerStatus:
    if isinstance(report, WorkerHello):
        raise InvalidRequestError("received a second hello; accepted: one, as the first message", field="hello")
    return report
