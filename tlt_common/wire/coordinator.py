"""tlt.coordinator.v1: workers, leases, the fleet."""

from math import inf
from typing import TYPE_CHECKING, TypeAlias

from tlt_common._generated.tlt.coordinator.v1 import coordinator_pb2 as pb
from tlt_common._generated.tlt.coordinator.v1.coordinator_pb2_grpc import CoordinatorServiceServicer as Servicer
from tlt_common._generated.tlt.coordinator.v1.coordinator_pb2_grpc import CoordinatorServiceStub as Stub
from tlt_common._generated.tlt.coordinator.v1.coordinator_pb2_grpc import (
    add_CoordinatorServiceServicer_to_server as add_servicer,
)
from tlt_common.domain.bounds import INT32_MAX, MAX_URI, require_name, require_range
from tlt_common.domain.fleet import (
    DrafterRecord,
    DrafterWish,
    Fleet,
    Lease,
    Member,
    Publication,
    ReportInterval,
    Revocation,
    WorkerAccount,
    WorkerHello,
    WorkerStatus,
)
from tlt_common.domain.ids import DrafterVersion
from tlt_common.errors import InvalidRequestError
from tlt_common.wire.convert import Codec, Field, Parts, Unsent, either, member_of, pair
from tlt_common.wire.rules import named, ranged
from tlt_common.wire.worker_status import STATE_FROM_PB, STATE_TO_PB

if TYPE_CHECKING:
    from tlt_common._generated.tlt.coordinator.v1.coordinator_pb2_grpc import CoordinatorServiceAsyncStub as AsyncStub
else:
    AsyncStub = Stub  # the type of a stub on an asyncio channel exists for type checkers only

SERVICE_NAME: str = pb.DESCRIPTOR.services_by_name["CoordinatorService"].full_name

__all__ = [
    "SERVICE_NAME",
    "AsyncStub",
    "Servicer",
    "Stub",
    "account_from_pb",
    "account_to_pb",
    "add_servicer",
    "fleet_from_pb",
    "fleet_to_pb",
    "member_from_pb",
    "member_to_pb",
    "newest_from_pb",
    "newest_to_pb",
    "order_from_pb",
    "order_to_pb",
    "pb",
    "publication_from_pb",
    "publication_to_pb",
    "queue_from_pb",
    "report_from_pb",
    "report_to_pb",
]


Report: TypeAlias = WorkerHello | WorkerStatus
"""What a worker sends to the coordinator."""
Order: TypeAlias = Lease | Revocation | DrafterWish | ReportInterval
"""What the coordinator sends to a worker."""


def _interval(path: str, seconds: float) -> float:
    if not 0.0 < seconds < inf:
        raise InvalidRequestError(f"{path} is {seconds}; accepted: a finite number above 0", field=path)
    return seconds


pair(Lease, pb.GrantLease, newest="drafter_version")
pair(ReportInterval, pb.ReportInterval, seconds=Field(read=_interval))
_wish_to_pb, _wish_from_pb = pair(DrafterWish, pb.DrafterWish, version="drafter_version")
_REPORT: Codec[Report, pb.HoldLeaseRequest] = either(pb.HoldLeaseRequest, hello=WorkerHello, status=WorkerStatus)
_ORDER: Codec[Order, pb.HoldLeaseResponse] = either(
    pb.HoldLeaseResponse, grant=Lease, revoke=Revocation, drafter=DrafterWish, report_interval=ReportInterval
)
report_to_pb, report_from_pb = _REPORT
order_to_pb, order_from_pb = _ORDER

publication_to_pb, publication_from_pb = pair(
    Publication,
    pb.PublishDrafterRequest,
    checked=True,
    base="base_version",
    uri=Field(read=named(1, MAX_URI)),
    held_out_top1=Field(read=ranged(0.0, 1.0)),
    base_top1=Field(read=ranged(0.0, 1.0)),
)

member_to_pb, member_from_pb = pair(Member, pb.FleetMember)
account_to_pb, account_from_pb = pair(
    WorkerAccount,
    pb.WorkerAccount,
    seconds=Parts(
        {
            "ledger": lambda account: [
                pb.StateSeconds(state=STATE_TO_PB[state], seconds=seconds) for state, seconds in account.seconds.items()
            ]
        },
        lambda within, message: {
            member_of(STATE_FROM_PB, f"{within}ledger.state", entry.state): entry.seconds for entry in message.ledger
        },
    ),
    unsettled=Unsent(),
)
pair(DrafterRecord, pb.DrafterRecord, version="drafter_version")
fleet_to_pb, fleet_from_pb = pair(
    Fleet,
    pb.GetFleetResponse,
    queued=Field(write=lambda count: min(count, INT32_MAX)),
    drafter=Parts(
        {
            "drafter_version": lambda fleet: fleet.drafter.version if fleet.drafter else 0,
            "drafter_uri": lambda fleet: fleet.drafter.uri if fleet.drafter else "",
        },
        lambda _, message: (
            DrafterWish(version=DrafterVersion(message.drafter_version), uri=message.drafter_uri)
            if message.drafter_version
            else None
        ),
    ),
    lending="lending_enabled",
)


def queue_from_pb(message: pb.ReportQueueRequest) -> tuple[str, int, float]:
    """
    Return the gateway's name, the number of its queued requests, and the seconds for which generation is paused.

    Raises:
        InvalidRequestError: The name is missing or too long, or the number is negative.
    """
    require_name("gateway_id", message.gateway_id, least=1)
    require_range("queued_count", message.queued_count, low=0, high=INT32_MAX)
    return message.gateway_id, message.queued_count, message.pause_left_s if message.pause_left_s > 0 else 0.0


def newest_to_pb(drafter: DrafterWish | None) -> pb.GetDrafterResponse:
    return pb.GetDrafterResponse(drafter=None if drafter is None else _wish_to_pb(drafter))


def newest_from_pb(message: pb.GetDrafterResponse) -> DrafterWish | None:
    return _wish_from_pb(message.drafter) if message.HasField("drafter") else None
