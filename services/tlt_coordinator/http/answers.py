"""The answers of the API, version 1. Times are Unix seconds of the coordinator's clock. `v1` may only be extended."""

from math import isfinite
from typing import Literal

from pydantic import BaseModel, ConfigDict

from tlt_common.domain.fleet import WorkerState
from tlt_coordinator.observer import ObservedFleet, ObservedWorker


class ApiAnswer(BaseModel):
    """Part of an answer."""

    model_config = ConfigDict(frozen=True)


class FleetAnswer(ApiAnswer):
    """Figures of the whole fleet."""

    at_unix_s: float
    since_unix_s: float
    """Since when this coordinator has data."""
    workers: int
    devices: int
    by_state: dict[WorkerState, int]
    """Workers by state."""
    seconds: dict[WorkerState, float]
    """Device-seconds by state, all."""
    bubble_utilisation: float
    lending: bool
    queued: int
    running: int
    paused: bool
    pause_left_s: float | None
    """Seconds until a pause ends by itself; null: there is none, or it has no limit."""
    policy_version: int
    drafter_version: int
    accept_length: float | None
    """Tokens per verification round; null: no worker decodes."""
    excluded: int
    """Workers that operators excluded from lending."""


class WorkerRow(ApiAnswer):
    """A worker."""

    worker_id: str
    state: WorkerState
    since_unix_s: float
    """Since when it is in its state."""
    standing: str
    """Why it is lent, or not, in a few words."""
    running: int
    devices: int
    policy_version: int
    drafter_version: int
    epoch: int
    """Of its lease; 0: none."""
    accept_length: float
    """0 if nothing ran."""
    arm: str
    problem: str
    """Why it does not train, or not load the newest drafter; empty: it does."""


class WorkersAnswer(ApiAnswer):
    """Workers in order of their ids."""

    workers: list[WorkerRow]
    next: str | None
    """The id after which to continue; null: these are the last."""


class WorkerAnswer(WorkerRow):
    """One worker."""

    address: str
    model: str
    device: str
    pod: str
    training_devices: int
    max_running: int
    produced_tokens: int
    training_steps: int
    training_loss: float | None
    training_s: float
    seconds: dict[WorkerState, float]
    """Device-seconds by state since the coordinator first saw it."""
    reasons: list[str]
    """Why it is lent, or not, in sentences."""


class StepAnswer(ApiAnswer):
    """A step of the run."""

    number: int
    policy_version: int
    began_unix_s: float
    ended_unix_s: float | None
    """When its last request ended; null: requests run."""
    updated_unix_s: float | None
    """When the policy changed after it; null: it has not."""
    requests: int
    tokens: int
    announced: int
    """Requests that callers had announced when it began; 0: none."""
    source: Literal["announced", "learned"]


class StepsAnswer(ApiAnswer):
    """Steps, in order."""

    steps: list[StepAnswer]


class RunningBucket(ApiAnswer):
    """Requests that run, by what they have generated: `from_tokens` to `to_tokens`, both included."""

    cap: int
    """Tokens at which they end at the latest."""
    from_tokens: int
    to_tokens: int
    count: int


class FinishedBucket(ApiAnswer):
    """Responses of the step that have ended, by length: `from_tokens` to `to_tokens`, both included."""

    from_tokens: int
    to_tokens: int
    count: int
    cut: int
    """Those of them that a cap or an abort ended."""


class LengthsAnswer(ApiAnswer):
    """Lengths of what runs and of what has ended since the step began."""

    running: list[RunningBucket]
    finished: list[FinishedBucket]


class DrafterAnswer(ApiAnswer):
    """A published drafter."""

    version: int
    worker_id: str
    at_unix_s: float
    held_out_top1: float
    policy_version: int
    workers: int
    """How many have loaded it."""


class DraftersAnswer(ApiAnswer):
    """Published drafters, oldest first."""

    newest: int
    """0: none was published."""
    drafters: list[DrafterAnswer]


class TraceEvent(ApiAnswer):
    """An event of Chrome's trace format."""

    ph: Literal["X", "i", "M"]
    """A span, an instant, or a name."""
    pid: int
    name: str
    tid: int | None = None
    ts: int | None = None
    """Microseconds of Unix time."""
    dur: int | None = None
    s: Literal["g"] | None = None
    args: dict[str, str | int | float] | None = None


class TraceAnswer(ApiAnswer):
    """A trace of Chrome."""

    displayTimeUnit: Literal["ms"]  # noqa: N815 - the format's name
    traceEvents: list[TraceEvent]  # noqa: N815


class ChangesEvent(ApiAnswer):
    """What changed: the fleet's figures, and workers whose state, lease or drafter did."""

    at_unix_s: float
    fleet: FleetAnswer
    workers: list[WorkerRow]


class ResyncEvent(ApiAnswer):
    """Changes were left out: read everything again."""

    reason: str
    since_unix_s: float


class Trouble(ApiAnswer):
    """An error."""

    message: str
    type: str
    code: int
    param: str | None = None
    """The parameter or header at fault."""


class TroubleAnswer(ApiAnswer):
    """Any answer but 200."""

    error: Trouble


def fleet_of(fleet: ObservedFleet) -> FleetAnswer:
    """Return the figures of the fleet."""
    return FleetAnswer(
        at_unix_s=fleet.at_s,
        since_unix_s=fleet.since_s,
        workers=sum(fleet.by_state.values()),
        devices=fleet.devices,
        by_state=dict(fleet.by_state),
        seconds=dict(fleet.seconds),
        bubble_utilisation=fleet.bubble_utilisation,
        lending=fleet.lending,
        queued=fleet.queued,
        running=fleet.running,
        paused=fleet.pause_left_s > 0,
        pause_left_s=fleet.pause_left_s if fleet.pause_left_s > 0 and isfinite(fleet.pause_left_s) else None,
        policy_version=fleet.policy,
        drafter_version=fleet.drafter,
        accept_length=fleet.accept_length,
        excluded=fleet.excluded,
    )


def row_of(worker: ObservedWorker) -> WorkerRow:
    """Return a worker's row."""
    status = worker.member.status
    return WorkerRow.model_construct(  # built of checked values, some hundred at a time
        worker_id=worker.member.hello.worker_id,
        state=status.state,
        since_unix_s=worker.since_s,
        standing=str(worker.standing),
        running=status.running,
        devices=worker.member.hello.devices,
        policy_version=status.policy_version,
        drafter_version=status.drafter_version,
        epoch=status.epoch,
        accept_length=status.accept_length if isfinite(status.accept_length) else 0.0,
        arm=status.arm,
        problem=status.problem,
    )
