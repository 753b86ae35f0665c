"""tlt.coordinator.v1: workers, leases, the fleet."""

from typing import TYPE_CHECKING

from tlt_common._generated.tlt.coordinator.v1 import coordinator_pb2 as pb
from tlt_common._generated.tlt.coordinator.v1.coordinator_pb2_grpc import CoordinatorServiceServicer as Servicer
from tlt_common._generated.tlt.coordinator.v1.coordinator_pb2_grpc import CoordinatorServiceStub as Stub
from tlt_common._generated.tlt.coordinator.v1.coordinator_pb2_grpc import (
    add_CoordinatorServiceServicer_to_server as add_servicer,
)
from tlt_common.domain.bounds import COUNTED_MAX, INT32_MAX, INT64_MAX, MAX_URI, require_name, require_range
from tlt_common.domain.fleet import (
    DrafterRecord,
    DrafterWish,
    Fleet,
    Lease,
    Member,
    Publication,
    ReportInterval,
    Revocation,
    StateChange,
    WorkerAccount,
    WorkerHello,
    WorkerStatus,
)
from tlt_common.domain.ids import DrafterVersion, Epoch, PolicyVersion, WorkerId
from tlt_common.errors import InvalidRequestError
from tlt_common.wire.worker_status import (
    STATE_FROM_PB,
    STATE_TO_PB,
    hello_from_pb,
    hello_to_pb,
    status_from_pb,
    status_to_pb,
)

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


def report_to_pb(report: WorkerHello | WorkerStatus) -> pb.HoldLeaseRequest:
    """Encode a message from a worker to the coordinator."""
    if isinstance(report, WorkerHello):
        return pb.HoldLeaseRequest(hello=hello_to_pb(report))
    return pb.HoldLeaseRequest(status=status_to_pb(report))


def report_from_pb(message: pb.HoldLeaseRequest) -> WorkerHello | WorkerStatus:
    """
    Raises:
        InvalidRequestError: The message is empty.
    """
    match message.WhichOneof("part"):
        case "hello":
            return hello_from_pb(message.hello)
        case "status":
            return status_from_pb(message.status)
        case _:
            raise InvalidRequestError("part is not set; accepted: hello or status", field="part")


def order_to_pb(order: Lease | Revocation | DrafterWish | ReportInterval) -> pb.HoldLeaseResponse:
    """Encode a message from the coordinator to a worker."""
    match order:
        case Lease(epoch=epoch, ttl_s=ttl_s, newest=newest):
            return pb.HoldLeaseResponse(grant=pb.GrantLease(epoch=epoch, ttl_s=ttl_s, drafter_version=newest))
        case Revocation(epoch=epoch):
            return pb.HoldLeaseResponse(revoke=pb.RevokeLease(epoch=epoch))
        case DrafterWish(version=version, uri=uri):
            return pb.HoldLeaseResponse(drafter=pb.DrafterWish(drafter_version=version, uri=uri))
        case ReportInterval(seconds=seconds):
            return pb.HoldLeaseResponse(report_interval=pb.ReportInterval(seconds=seconds))


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
    if drafter is None:
        return pb.GetDrafterResponse()
    return pb.GetDrafterResponse(drafter=pb.DrafterWish(drafter_version=drafter.version, uri=drafter.uri))


def newest_from_pb(message: pb.GetDrafterResponse) -> DrafterWish | None:
    if not message.HasField("drafter"):
        return None
    return DrafterWish(version=DrafterVersion(message.drafter.drafter_version), uri=message.drafter.uri)


def publication_to_pb(publication: Publication) -> pb.PublishDrafterRequest:
    return pb.PublishDrafterRequest(
        base_version=publication.base,
        uri=publication.uri,
        worker_id=publication.worker_id,
        held_out_top1=publication.held_out_top1,
        base_top1=publication.base_top1,
        policy_version=publication.policy_version,
        token_count=publication.tokens,
    )


def publication_from_pb(message: pb.PublishDrafterRequest) -> Publication:
    """
    Raises:
        InvalidRequestError: The URI is missing, a name is too long, or a number is out of range.
    """
    require_range("base_version", message.base_version, low=0, high=COUNTED_MAX)
    require_name("uri", message.uri, least=1, most=MAX_URI)
    require_name("worker_id", message.worker_id)
    require_range("held_out_top1", message.held_out_top1, low=0.0, high=1.0)
    require_range("base_top1", message.base_top1, low=0.0, high=1.0)
    require_range("policy_version", message.policy_version, low=0, high=INT64_MAX)
    require_range("token_count", message.token_count, low=0, high=INT64_MAX)
    return Publication(
        base=DrafterVersion(message.base_version),
        uri=message.uri,
        worker_id=WorkerId(message.worker_id),
        held_out_top1=message.held_out_top1,
        base_top1=message.base_top1 if message.HasField("base_top1") else None,
        policy_version=PolicyVersion(message.policy_version),
        tokens=message.token_count,
    )


def order_from_pb(message: pb.HoldLeaseResponse) -> Lease | Revocation | DrafterWish | ReportInterval:
    """
    Raises:
        InvalidRequestError: The message is empty, or the interval is not above 0.
    """
    match message.WhichOneof("part"):
        case "grant":
            grant = message.grant
            newest = DrafterVersion(grant.drafter_version) if grant.HasField("drafter_version") else None
            return Lease(epoch=Epoch(grant.epoch), ttl_s=grant.ttl_s, newest=newest)
        case "revoke":
            return Revocation(epoch=Epoch(message.revoke.epoch))
        case "drafter":
            return DrafterWish(version=DrafterVersion(message.drafter.drafter_version), uri=message.drafter.uri)
        case "report_interval":
            seconds = message.report_interval.seconds
            if not 0.0 < seconds < float("inf"):
                raise InvalidRequestError(
                    f"report_interval.seconds is {seconds}; accepted: a finite number above 0",
                    field="report_interval.seconds",
                )
            return ReportInterval(seconds=seconds)
        case _:
            raise InvalidRequestError(
                "part is not set; accepted: grant, revoke, drafter or report_interval", field="part"
            )


def member_to_pb(member: Member) -> pb.FleetMember:
    return pb.FleetMember(hello=hello_to_pb(member.hello), status=status_to_pb(member.status))


def member_from_pb(message: pb.FleetMember) -> Member:
    return Member(hello=hello_from_pb(message.hello), status=status_from_pb(message.status))


def account_to_pb(account: WorkerAccount) -> pb.WorkerAccount:
    return pb.WorkerAccount(
        hello=hello_to_pb(account.hello),
        status=status_to_pb(account.status),
        ledger=[
            pb.StateSeconds(state=STATE_TO_PB[state], seconds=seconds) for state, seconds in account.seconds.items()
        ],
        timeline=[
            pb.StateChange(state=STATE_TO_PB[change.state], at_unix_s=change.at_unix_s) for change in account.timeline
        ],
        standing=account.standing,
    )


def account_from_pb(message: pb.WorkerAccount) -> WorkerAccount:
    return WorkerAccount(
        hello=hello_from_pb(message.hello),
        status=status_from_pb(message.status),
        seconds={STATE_FROM_PB[entry.state]: entry.seconds for entry in message.ledger},
        timeline=tuple(
            StateChange(state=STATE_FROM_PB[change.state], at_unix_s=change.at_unix_s) for change in message.timeline
        ),
        standing=message.standing,
    )


def fleet_to_pb(fleet: Fleet) -> pb.GetFleetResponse:
    return pb.GetFleetResponse(
        workers=[account_to_pb(account) for account in fleet.workers],
        queued_count=min(fleet.queued, INT32_MAX),
        drafter_version=fleet.drafter.version if fleet.drafter else 0,
        drafter_uri=fleet.drafter.uri if fleet.drafter else "",
        lending_enabled=fleet.lending,
        bubble_utilisation=fleet.bubble_utilisation,
        pause_left_s=fleet.pause_left_s,
        drafters=[
            pb.DrafterRecord(
                drafter_version=record.version,
                worker_id=record.worker_id,
                at_unix_s=record.at_unix_s,
                held_out_top1=record.held_out_top1,
                policy_version=record.policy_version,
            )
            for record in fleet.drafters
        ],
    )


def fleet_from_pb(message: pb.GetFleetResponse) -> Fleet:
    drafter = DrafterWish(version=DrafterVersion(message.drafter_version), uri=message.drafter_uri)
    return Fleet(
        workers=tuple(account_from_pb(account) for account in message.workers),
        queued=message.queued_count,
        drafter=drafter if message.drafter_version else None,
        drafters=tuple(
            DrafterRecord(
                version=DrafterVersion(record.drafter_version),
                worker_id=WorkerId(record.worker_id),
                at_unix_s=record.at_unix_s,
                held_out_top1=record.held_out_top1,
                policy_version=PolicyVersion(record.policy_version),
            )
            for record in message.drafters
        ),
        lending=message.lending_enabled,
        bubble_utilisation=message.bubble_utilisation,
        pause_left_s=message.pause_left_s,
    )
