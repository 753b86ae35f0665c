"""tlt.coordinator.v1: workers, leases, the fleet."""

from tlt_common._generated.tlt.coordinator.v1 import coordinator_pb2 as pb
from tlt_common._generated.tlt.coordinator.v1.coordinator_pb2_grpc import CoordinatorServiceServicer as Servicer
from tlt_common._generated.tlt.coordinator.v1.coordinator_pb2_grpc import CoordinatorServiceStub as Stub
from tlt_common._generated.tlt.coordinator.v1.coordinator_pb2_grpc import (
    add_CoordinatorServiceServicer_to_server as add_servicer,
)
from tlt_common.domain.fleet import (
    DrafterRecord,
    DrafterWish,
    Fleet,
    Lease,
    Member,
    Revocation,
    StateChange,
    WorkerAccount,
    WorkerHello,
    WorkerState,
    WorkerStatus,
)
from tlt_common.domain.ids import DrafterVersion, Epoch, PolicyVersion, WorkerId
from tlt_common.errors import InvalidRequestError

SERVICE_NAME: str = pb.DESCRIPTOR.services_by_name["CoordinatorService"].full_name

__all__ = [
    "SERVICE_NAME",
    "Servicer",
    "Stub",
    "account_from_pb",
    "account_to_pb",
    "add_servicer",
    "fleet_from_pb",
    "fleet_to_pb",
    "member_from_pb",
    "member_to_pb",
    "order_from_pb",
    "order_to_pb",
    "pb",
    "report_from_pb",
    "report_to_pb",
]

_STATE_TO_PB = {
    WorkerState.ROLLOUT: pb.WORKER_STATE_ROLLOUT,
    WorkerState.TRAINING: pb.WORKER_STATE_TRAINING,
    WorkerState.SWITCHING: pb.WORKER_STATE_SWITCHING,
    WorkerState.UPDATING: pb.WORKER_STATE_UPDATING,
    WorkerState.IDLE: pb.WORKER_STATE_IDLE,
    WorkerState.DOWN: pb.WORKER_STATE_DOWN,
}
_STATE_FROM_PB = {value: key for key, value in _STATE_TO_PB.items()}


def hello_to_pb(hello: WorkerHello) -> pb.WorkerHello:
    return pb.WorkerHello(
        worker_id=hello.worker_id,
        address=hello.address,
        model=hello.model,
        device=hello.device,
        max_running=hello.max_running,
        pod=hello.pod,
    )


def hello_from_pb(message: pb.WorkerHello) -> WorkerHello:
    return WorkerHello(
        worker_id=WorkerId(message.worker_id),
        address=message.address,
        model=message.model,
        device=message.device,
        max_running=message.max_running,
        pod=message.pod,
    )


def status_to_pb(status: WorkerStatus) -> pb.WorkerStatus:
    return pb.WorkerStatus(
        state=_STATE_TO_PB[status.state],
        running_count=status.running,
        policy_version=status.policy_version,
        drafter_version=status.drafter_version,
        epoch=status.epoch,
        accept_length=status.accept_length,
        produced_tokens=status.produced_tokens,
        arm=status.arm,
        training_step_count=status.training_steps,
        training_loss=status.training_loss,
        trainer_ready=status.trainer_ready,
    )


def status_from_pb(message: pb.WorkerStatus) -> WorkerStatus:
    """
    Raises:
        InvalidRequestError: The state is not set.
    """
    if message.state not in _STATE_FROM_PB:
        raise InvalidRequestError("status.state is not set; accepted: a WorkerState", field="status.state")
    return WorkerStatus(
        state=_STATE_FROM_PB[message.state],
        running=message.running_count,
        policy_version=PolicyVersion(message.policy_version),
        drafter_version=DrafterVersion(message.drafter_version),
        epoch=Epoch(message.epoch),
        accept_length=message.accept_length,
        produced_tokens=message.produced_tokens,
        arm=message.arm,
        training_steps=message.training_step_count,
        training_loss=message.training_loss,
        trainer_ready=message.trainer_ready,
    )


def report_to_pb(report: WorkerHello | WorkerStatus) -> pb.HoldLeaseRequest:
    """What a worker sends up its stream."""
    if isinstance(report, WorkerHello):
        return pb.HoldLeaseRequest(hello=hello_to_pb(report))
    return pb.HoldLeaseRequest(status=status_to_pb(report))


def report_from_pb(message: pb.HoldLeaseRequest) -> WorkerHello | WorkerStatus:
    """
    Raises:
        InvalidRequestError: The message carries nothing.
    """
    match message.WhichOneof("part"):
        case "hello":
            return hello_from_pb(message.hello)
        case "status":
            return status_from_pb(message.status)
        case _:
            raise InvalidRequestError("part is not set; accepted: hello or status", field="part")


def order_to_pb(order: Lease | Revocation | DrafterWish) -> pb.HoldLeaseResponse:
    """What a worker is sent down its stream."""
    match order:
        case Lease(epoch=epoch, ttl_s=ttl_s):
            return pb.HoldLeaseResponse(grant=pb.GrantLease(epoch=epoch, ttl_s=ttl_s))
        case Revocation(epoch=epoch):
            return pb.HoldLeaseResponse(revoke=pb.RevokeLease(epoch=epoch))
        case DrafterWish(version=version, uri=uri):
            return pb.HoldLeaseResponse(drafter=pb.DrafterWish(drafter_version=version, uri=uri))


def order_from_pb(message: pb.HoldLeaseResponse) -> Lease | Revocation | DrafterWish:
    """
    Raises:
        InvalidRequestError: The message carries nothing.
    """
    match message.WhichOneof("part"):
        case "grant":
            return Lease(epoch=Epoch(message.grant.epoch), ttl_s=message.grant.ttl_s)
        case "revoke":
            return Revocation(epoch=Epoch(message.revoke.epoch))
        case "drafter":
            return DrafterWish(version=DrafterVersion(message.drafter.drafter_version), uri=message.drafter.uri)
        case _:
            raise InvalidRequestError("part is not set; accepted: grant, revoke or drafter", field="part")


def member_to_pb(member: Member) -> pb.FleetMember:
    return pb.FleetMember(hello=hello_to_pb(member.hello), status=status_to_pb(member.status))


def member_from_pb(message: pb.FleetMember) -> Member:
    return Member(hello=hello_from_pb(message.hello), status=status_from_pb(message.status))


def account_to_pb(account: WorkerAccount) -> pb.WorkerAccount:
    return pb.WorkerAccount(
        hello=hello_to_pb(account.hello),
        status=status_to_pb(account.status),
        ledger=[
            pb.StateSeconds(state=_STATE_TO_PB[state], seconds=seconds) for state, seconds in account.seconds.items()
        ],
        timeline=[
            pb.StateChange(state=_STATE_TO_PB[change.state], at_unix_s=change.at_unix_s) for change in account.timeline
        ],
    )


def account_from_pb(message: pb.WorkerAccount) -> WorkerAccount:
    return WorkerAccount(
        hello=hello_from_pb(message.hello),
        status=status_from_pb(message.status),
        seconds={_STATE_FROM_PB[entry.state]: entry.seconds for entry in message.ledger},
        timeline=tuple(
            StateChange(state=_STATE_FROM_PB[change.state], at_unix_s=change.at_unix_s) for change in message.timeline
        ),
    )


def fleet_to_pb(fleet: Fleet) -> pb.GetFleetResponse:
    return pb.GetFleetResponse(
        workers=[account_to_pb(account) for account in fleet.workers],
        queued_count=fleet.queued,
        drafter_version=fleet.drafter.version if fleet.drafter else 0,
        drafter_uri=fleet.drafter.uri if fleet.drafter else "",
        lending_enabled=fleet.lending,
        bubble_utilisation=fleet.bubble_utilisation,
        drafters=[
            pb.DrafterRecord(
                drafter_version=record.version,
                worker_id=record.worker_id,
                at_unix_s=record.at_unix_s,
                held_out_top1=record.held_out_top1,
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
            )
            for record in message.drafters
        ),
        lending=message.lending_enabled,
        bubble_utilisation=message.bubble_utilisation,
    )
