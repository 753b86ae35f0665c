"""The orders to workers that follow from decisions: grants, renewals and revocations of leases. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from tlt_common.domain.fleet import Lease, Revocation
from tlt_common.domain.ids import DrafterVersion, Epoch, WorkerId
from tlt_coordinator.config import LendingPolicy
from tlt_coordinator.lending.decision import Reason, WorkerView, why_end


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetView:
    """The workers to decide about, which `worklist` finds, and conditions of the fleet."""

    workers: tuple[WorkerView, ...]
    """Workers that may hold a lease to renew or to revoke."""
    settled: tuple[WorkerView, ...]
    """Free workers to lend, idle longest first."""
    queued: int
    """Requests queued at gateways. Nothing is lent meanwhile."""
    lending: bool
    last_epoch: Epoch
    """Highest epoch ever granted."""
    reserved_epoch: Epoch
    """Highest epoch that may be granted."""
    drafter: DrafterVersion = DrafterVersion(0)
    """Newest drafter; 0 if none was published."""
    recalled: frozenset[WorkerId] = frozenset()
    """Workers to take back although nothing else ends their leases: the least valuable ones, as many as requests wait,
    or as more train than pay."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """Lend a worker, or renew its lease if the epoch is that of its loan."""

    worker_id: WorkerId
    lease: Lease


@dataclass(frozen=True, slots=True, kw_only=True)
class Revoke:
    """Revoke the lease of a worker."""

    worker_id: WorkerId
    revocation: Revocation
    reason: Reason


RoleChange: TypeAlias = Grant | Revoke


def orders(fleet: FleetView, now_s: float, policy: LendingPolicy) -> tuple[RoleChange, ...]:
    """
    Return the orders to send to workers now.

    At most one order per worker. New grants get distinct epochs above `fleet.last_epoch` and at most the reserved one;
    a worker gets one only when it reports that it holds no lease. A lease that is not renewed in time expires at the
    worker.
    """
    wanted = fleet.lending and fleet.queued == 0
    held = [order for worker in fleet.workers for order in _held(worker, fleet, now_s, policy)]
    grants = _grants(fleet, policy) if wanted else ()
    return (*held, *grants)


def _held(worker: WorkerView, fleet: FleetView, now_s: float, policy: LendingPolicy) -> Iterator[RoleChange]:
    """Revoke or renew a worker's lease. An unknown lease is revoked."""
    loan = worker.loan
    if loan is None:
        if worker.status.epoch > worker.revoked:
            yield _revoke(worker, worker.status.epoch, Reason.UNKNOWN)
        return
    reason = why_end(worker, loan, now_s, policy, lending=fleet.lending, queued=fleet.queued, recalled=fleet.recalled)
    if reason is not None:
        yield _revoke(worker, loan.epoch, reason)
    elif now_s - loan.renewed_at_s >= policy.lease_ttl_s / 3:
        yield _grant(worker, loan.epoch, fleet, policy)


def _grants(fleet: FleetView, policy: LendingPolicy) -> Iterator[RoleChange]:
    epoch = fleet.last_epoch
    for worker in fleet.settled:
        if epoch >= fleet.reserved_epoch:
            return
        epoch = Epoch(epoch + 1)
        yield _grant(worker, epoch, fleet, policy)


def _grant(worker: WorkerView, epoch: Epoch, fleet: FleetView, policy: LendingPolicy) -> Grant:
    lease = Lease(epoch=epoch, ttl_s=policy.lease_ttl_s, newest=fleet.drafter)
    return Grant(worker_id=worker.worker_id, lease=lease)


def _revoke(worker: WorkerView, epoch: Epoch, reason: Reason) -> Revoke:
    return Revoke(worker_id=worker.worker_id, revocation=Revocation(epoch=epoch), reason=reason)
