"""
Who trains: lend workers that ran dry, take them back when requests wait.

Pure: a function of what is known and of the time, so that every shape of a tail can be a test case. Nothing here is
needed for rollouts to come first: a worker takes its own device back when a request arrives, and says so afterwards.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from tlt_common.domain.fleet import Lease, Revocation, WorkerState, WorkerStatus
from tlt_common.domain.ids import Epoch, WorkerId
from tlt_coordinator.config import SpotConfig


class Reason(StrEnum):
    """Why a lease ends."""

    LENDING_OFF = "lending_off"
    QUEUE = "queue"
    """Requests wait at a gateway."""
    PREEMPTED = "preempted"
    """The worker took its device back."""
    TRAINER_LOST = "trainer_lost"
    IGNORED = "ignored"
    """The worker did not take the lease up while it lived."""
    UNKNOWN = "unknown"
    """The worker holds a lease that is not on the books, as after a restart of the coordinator."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loan:
    """A lease that was granted and has not ended."""

    epoch: Epoch
    granted_at_s: float
    renewed_at_s: float
    taken_up: bool = False
    """The worker has reported this epoch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerView:
    """What is known of a worker that is there."""

    worker_id: WorkerId
    status: WorkerStatus
    since_s: float
    """When it entered the state it reports."""
    loan: Loan | None = None
    revoked: Epoch = Epoch(0)
    """Highest epoch revoked on its present stream."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetView:
    """What a plan is made of."""

    workers: tuple[WorkerView, ...]
    queued: int
    lending: bool
    last_epoch: Epoch
    """Highest epoch ever granted."""
    reserved_epoch: Epoch
    """Highest epoch that may be granted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """Lend a worker, or renew its loan when the epoch is the loan's."""

    worker_id: WorkerId
    lease: Lease


@dataclass(frozen=True, slots=True, kw_only=True)
class Revoke:
    """Take a worker back."""

    worker_id: WorkerId
    revocation: Revocation
    reason: Reason


RoleChange: TypeAlias = Grant | Revoke

_BUSY = {WorkerState.ROLLOUT, WorkerState.UPDATING}


def plan(fleet: FleetView, now_s: float, policy: SpotConfig) -> tuple[RoleChange, ...]:
    """
    Say what to tell the workers now.

    At most one order per worker. New grants get epochs above `fleet.last_epoch`, each its own and none above the
    reserved one; a worker gets one only when it reports that it holds none. A loan that is not renewed in time dies at
    the worker.
    """
    wanted = fleet.lending and fleet.queued == 0
    held = [order for worker in fleet.workers for order in _held(worker, fleet, now_s, policy)]
    grants = _grants(fleet, now_s, policy) if wanted else ()
    return (*held, *grants)


def why_end(worker: WorkerView, loan: Loan, fleet: FleetView, now_s: float, policy: SpotConfig) -> Reason | None:
    """Why a loan must end now; None: it goes on."""
    status = worker.status
    if not fleet.lending:
        return Reason.LENDING_OFF
    if fleet.queued > 0:
        return Reason.QUEUE
    if status.state in _BUSY or status.running > 0 or (loan.taken_up and status.epoch != loan.epoch):
        return Reason.PREEMPTED
    if not status.trainer_ready:
        return Reason.TRAINER_LOST
    if not loan.taken_up and now_s - loan.granted_at_s >= policy.lease_ttl_s:
        return Reason.IGNORED
    return None


def _held(worker: WorkerView, fleet: FleetView, now_s: float, policy: SpotConfig) -> Iterator[RoleChange]:
    """End, renew or disown what a worker holds."""
    loan = worker.loan
    if loan is None:
        if worker.status.epoch > worker.revoked:
            yield _revoke(worker, worker.status.epoch, Reason.UNKNOWN)
        return
    reason = why_end(worker, loan, fleet, now_s, policy)
    if reason is not None:
        yield _revoke(worker, loan.epoch, reason)
    elif now_s - loan.renewed_at_s >= policy.lease_ttl_s / 3:
        yield Grant(worker_id=worker.worker_id, lease=Lease(epoch=loan.epoch, ttl_s=policy.lease_ttl_s))


def _grants(fleet: FleetView, now_s: float, policy: SpotConfig) -> Iterator[RoleChange]:
    """Lend the workers that have been idle longest; those that were busy last are kept warm."""
    idle = sorted((worker for worker in fleet.workers if is_free(worker)), key=lambda worker: worker.since_s)
    epoch = fleet.last_epoch
    for worker in idle[: max(0, len(idle) - policy.keep_warm)]:
        if epoch >= fleet.reserved_epoch:
            return
        if worker.status.trainer_ready and now_s - worker.since_s >= policy.settle_s:
            epoch = Epoch(epoch + 1)
            yield Grant(worker_id=worker.worker_id, lease=Lease(epoch=epoch, ttl_s=policy.lease_ttl_s))


def is_free(worker: WorkerView) -> bool:
    """Whether a worker has nothing to do and holds no lease."""
    status = worker.status
    return status.state is WorkerState.IDLE and status.running == 0 and status.epoch == 0 and worker.loan is None


def _revoke(worker: WorkerView, epoch: Epoch, reason: Reason) -> Revoke:
    return Revoke(worker_id=worker.worker_id, revocation=Revocation(epoch=epoch), reason=reason)
