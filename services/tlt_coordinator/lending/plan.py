"""
Decides who trains: lends idle workers, and revokes their leases when requests wait.

Pure: a function of the known state and the time, so that every shape of a tail can be a test case. The priority of
rollouts does not depend on it: a worker takes its own device back when a request arrives, and reports that afterwards.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from tlt_common.domain.fleet import FREE, Lease, Revocation, WorkerState, WorkerStatus
from tlt_common.domain.ids import DrafterVersion, Epoch, WorkerId
from tlt_coordinator.config import SpotConfig


class Reason(StrEnum):
    """Why a lease ends."""

    LENDING_OFF = "lending_off"
    EXCLUDED = "excluded"
    """By an operator."""
    QUEUE = "queue"
    """Requests are queued at a gateway."""
    SURPLUS = "surplus"
    """More workers train than pay."""
    PREEMPTED = "preempted"
    """The worker took its device back."""
    TRAINER_LOST = "trainer_lost"
    IGNORED = "ignored"
    """The worker did not report the lease before it expired."""
    UNKNOWN = "unknown"
    """The worker holds a lease that the coordinator does not know, for example after a restart of the coordinator."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loan:
    """A lease that was granted and has not ended."""

    epoch: Epoch
    granted_at_s: float
    renewed_at_s: float
    taken_up: bool = False
    """Whether the worker has reported this epoch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerView:
    """State of a connected worker."""

    worker_id: WorkerId
    status: WorkerStatus
    loan: Loan | None = None
    revoked: Epoch = Epoch(0)
    """Highest epoch revoked on its current stream."""
    excluded: bool = False
    """Whether an operator excluded it from lending."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetView:
    """Input of a plan. `worklist` finds the workers that it needs among all."""

    workers: tuple[WorkerView, ...]
    """Workers that may hold a lease to renew or to revoke."""
    settled: tuple[WorkerView, ...]
    """Free workers to lend, idle longest first."""
    queued: int
    """Requests that wait at gateways; nothing is lent meanwhile."""
    lending: bool
    last_epoch: Epoch
    """Highest epoch ever granted."""
    reserved_epoch: Epoch
    """Highest epoch that may be granted."""
    drafter: DrafterVersion = DrafterVersion(0)
    """Newest drafter; 0: none was published."""
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

_BUSY = {WorkerState.ROLLOUT, WorkerState.UPDATING, WorkerState.TRAINER}


def plan(fleet: FleetView, now_s: float, policy: SpotConfig) -> tuple[RoleChange, ...]:
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


def why_end(worker: WorkerView, loan: Loan, fleet: FleetView, now_s: float, policy: SpotConfig) -> Reason | None:
    """Return why a loan must end now; None: it continues."""
    status = worker.status
    if not fleet.lending:
        return Reason.LENDING_OFF
    if worker.excluded:
        return Reason.EXCLUDED
    if status.state in _BUSY or status.running > 0 or (loan.taken_up and status.epoch != loan.epoch):
        return Reason.PREEMPTED
    if not status.trainer_ready:
        return Reason.TRAINER_LOST
    if not loan.taken_up and now_s - loan.granted_at_s >= policy.lease_ttl_s:
        return Reason.IGNORED
    if worker.worker_id in fleet.recalled:
        return Reason.QUEUE if fleet.queued > 0 else Reason.SURPLUS
    return None


def _held(worker: WorkerView, fleet: FleetView, now_s: float, policy: SpotConfig) -> Iterator[RoleChange]:
    """Revoke or renew the lease a worker holds; revoke one that the coordinator does not know."""
    loan = worker.loan
    if loan is None:
        if worker.status.epoch > worker.revoked:
            yield _revoke(worker, worker.status.epoch, Reason.UNKNOWN)
        return
    reason = why_end(worker, loan, fleet, now_s, policy)
    if reason is not None:
        yield _revoke(worker, loan.epoch, reason)
    elif now_s - loan.renewed_at_s >= policy.lease_ttl_s / 3:
        yield _grant(worker, loan.epoch, fleet, policy)


def _grants(fleet: FleetView, policy: SpotConfig) -> Iterator[RoleChange]:
    epoch = fleet.last_epoch
    for worker in fleet.settled:
        if epoch >= fleet.reserved_epoch:
            return
        epoch = Epoch(epoch + 1)
        yield _grant(worker, epoch, fleet, policy)


def is_free(worker: WorkerView) -> bool:
    """Return whether a worker's devices are unused, it holds no lease and is not excluded."""
    status, unbound = worker.status, worker.loan is None and not worker.excluded
    return status.state in FREE and status.running == 0 and status.epoch == 0 and unbound


def _grant(worker: WorkerView, epoch: Epoch, fleet: FleetView, policy: SpotConfig) -> Grant:
    lease = Lease(epoch=epoch, ttl_s=policy.lease_ttl_s, newest=fleet.drafter)
    return Grant(worker_id=worker.worker_id, lease=lease)


def _revoke(worker: WorkerView, epoch: Epoch, reason: Reason) -> Revoke:
    return Revoke(worker_id=worker.worker_id, revocation=Revocation(epoch=epoch), reason=reason)
