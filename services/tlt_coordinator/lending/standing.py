"""Tells operators why a worker is lent, or not. Pure."""

from dataclasses import dataclass
from enum import StrEnum

from tlt_common.domain.fleet import WorkerState
from tlt_coordinator.lending.plan import WorkerView


class Standing(StrEnum):
    """Why a worker is lent, or not: the first that holds."""

    DOWN = "down"
    """It is unreachable."""
    EXCLUDED = "excluded"
    """An operator excluded it."""
    LENDING_OFF = "lending is off"
    """No worker is lent."""
    ROLLOUT = "requests run"
    """Rollouts have priority."""
    UPDATING = "weights are loaded"
    """As they do."""
    TRAINER = "the RL trainer has it"
    """It released its memory, and was not resumed."""
    LENT = "lent"
    """It holds a lease."""
    SWITCHING = "switching"
    """Its devices are being returned, or it has not answered a lease yet."""
    NO_TRAINER = "no trainer"
    """It has none, or it does not answer."""
    RESTING = "nothing to learn"
    """Its trainer wants no lease."""
    QUEUE = "requests wait"
    """At a gateway."""
    SETTLING = "idle too short"
    """Since less than spot.settle_s, or not expected to be so for longer than a lease costs."""
    RESERVED = "kept warm"
    """One of spot.keep_warm."""
    ENOUGH = "enough workers train"
    """As many as pay, or spot.max_trainers."""
    OFFERED = "about to be lent"
    """Nothing stands against it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Circumstances:
    """What holds for all workers."""

    lending: bool
    queued: int
    settle_s: float
    keep_warm: int
    free: int
    """Workers that are idle and hold no lease."""
    enough: bool = False
    """Whether as many workers train as pay."""


def standing_of(worker: WorkerView | None, idle_s: float | None, now: Circumstances) -> Standing:
    """
    Return why a worker is lent, or not, as `plan` decides.

    Args:
        worker: The worker; None if it is not connected.
        idle_s: Seconds since it could be lent; None: it cannot.
        now: What holds for all workers.
    """
    if worker is None:
        return Standing.DOWN
    status = worker.status
    found = (
        (worker.excluded, Standing.EXCLUDED),
        (not now.lending, Standing.LENDING_OFF),
        (status.state is WorkerState.ROLLOUT or status.running > 0, Standing.ROLLOUT),
        (status.state is WorkerState.UPDATING, Standing.UPDATING),
        (status.state is WorkerState.TRAINER, Standing.TRAINER),
        (worker.loan is not None and worker.loan.taken_up, Standing.LENT),
        (worker.loan is not None or status.epoch != 0 or status.state is WorkerState.SWITCHING, Standing.SWITCHING),
        (not status.trainer_ready, Standing.NO_TRAINER),
        (status.trainer_resting, Standing.RESTING),
        (now.queued > 0, Standing.QUEUE),
        (idle_s is None or idle_s < now.settle_s, Standing.SETTLING),
        (now.free <= now.keep_warm, Standing.RESERVED),
        (now.enough, Standing.ENOUGH),
    )
    return next((standing for holds, standing in found if holds), Standing.OFFERED)
