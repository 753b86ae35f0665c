"""
Decides which workers are lent, and why. Pure: a function of the known state and the time.

A worker's `Standing` is decision and reason at once: a worker is lent when it is `OFFERED`, and stays lent until
`why_end` returns a reason. Which workers to lend next (`worklist`), the orders to workers (`orders`), `tlt status`, the
page and the simulator all follow this file.

The priority of rollouts does not depend on it: a worker takes its device back itself when a request arrives, and
reports that afterwards.
"""

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum

from tlt_common.domain.fleet import WorkerState, WorkerStatus
from tlt_common.domain.ids import Epoch, WorkerId
from tlt_coordinator.config import LendingPolicy


class Standing(StrEnum):
    """Why a worker is or is not lent: the first that applies."""

    DOWN = "down"
    """It is unreachable."""
    EXCLUDED = "excluded"
    """An operator excluded it."""
    LENDING_OFF = "lending is off"
    """No worker is lent."""
    ROLLOUT = "requests run"
    """Rollouts have priority."""
    UPDATING = "weights are loaded"
    """Updates have priority, too."""
    TRAINER = "the RL trainer has it"
    """It released its memory, and was not resumed."""
    LENT = "lent"
    """It holds a lease."""
    SWITCHING = "switching"
    """Its devices are being returned, or it has not answered a lease yet."""
    NO_TRAINER = "no trainer"
    """It has no spot trainer, or the trainer does not answer."""
    RESTING = "nothing to learn"
    """Its trainer wants no lease."""
    QUEUE = "requests wait"
    """At a gateway."""
    SETTLING = "idle too short"
    """Idle for less than spot.settle_s, or not expected to be idle for longer than a lease costs."""
    ENOUGH = "enough workers train"
    """As many as pay, or spot.max_trainers."""
    OFFERED = "about to be lent"
    """No other reason holds."""


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
class Circumstances:
    """Conditions that apply to all workers."""

    lending: bool
    queued: int
    settle_s: float
    enough: bool = False
    """Whether no further trainer would pay off."""


def standing_of(worker: WorkerView | None, idle_s: float | None, now: Circumstances) -> Standing:
    """
    Return why a worker is or is not lent.

    Args:
        worker: The worker; None if it is not connected.
        idle_s: Seconds for which it has been lendable; None if it is not.
        now: Conditions that apply to all workers.
    """
    if worker is None:
        return Standing.DOWN
    obstacle = obstacle_of(worker)
    if not now.lending and obstacle not in {Standing.DOWN, Standing.EXCLUDED}:
        return Standing.LENDING_OFF
    if obstacle is not None:
        return obstacle
    found = (
        (now.queued > 0, Standing.QUEUE),
        (idle_s is None or idle_s < now.settle_s, Standing.SETTLING),
        (now.enough, Standing.ENOUGH),
    )
    return next((standing for holds, standing in found if holds), Standing.OFFERED)


def obstacle_of(worker: WorkerView) -> Standing | None:
    """Return why a worker cannot be lent regardless of others, or is lent; None if it can be lent."""
    status, loan = worker.status, worker.loan
    if status.state is WorkerState.DOWN:
        return Standing.DOWN
    if worker.excluded:
        return Standing.EXCLUDED
    if (use := _use_of(status)) is not None:
        return use
    found = (
        (loan is not None and loan.taken_up, Standing.LENT),
        (loan is not None or status.epoch != 0 or status.state in _SWITCHING, Standing.SWITCHING),
        (not status.trainer_ready, Standing.NO_TRAINER),
        (status.trainer_resting, Standing.RESTING),
    )
    return next((standing for holds, standing in found if holds), None)


_SWITCHING = {WorkerState.SWITCHING, WorkerState.TRAINING}
"""Without a lease, a worker that still trains is about to return its devices."""


def _use_of(status: WorkerStatus) -> Standing | None:
    """Return what else needs a worker's devices, or None."""
    if status.running > 0:
        return Standing.ROLLOUT
    return _USES.get(status.state)


_USES = {
    WorkerState.ROLLOUT: Standing.ROLLOUT,
    WorkerState.UPDATING: Standing.UPDATING,
    WorkerState.TRAINER: Standing.TRAINER,
}


def why_end(
    worker: WorkerView,
    loan: Loan,
    now_s: float,
    policy: LendingPolicy,
    *,
    lending: bool,
    queued: int,
    recalled: Collection[WorkerId],
) -> Reason | None:
    """
    Return why a loan must end now, or None if it continues.

    Args:
        worker: The worker that holds it.
        loan: The loan.
        now_s: Current time.
        policy: Lending policy, which determines when a lease expires.
        lending: Whether workers are lent at all.
        queued: Requests queued at gateways.
        recalled: Workers to take back although nothing else ends their leases.
    """
    status = worker.status
    if not lending:
        return Reason.LENDING_OFF
    if worker.excluded:
        return Reason.EXCLUDED
    if _use_of(status) is not None or (loan.taken_up and status.epoch != loan.epoch):
        return Reason.PREEMPTED
    if not status.trainer_ready:
        return Reason.TRAINER_LOST
    if not loan.taken_up and now_s - loan.granted_at_s >= policy.lease_ttl_s:
        return Reason.IGNORED
    if worker.worker_id in recalled:
        return Reason.QUEUE if queued > 0 else Reason.SURPLUS
    return None
