"""What a worker tells the coordinator about itself: its hello and its status."""

from itertools import pairwise
from math import isfinite

from tlt_common._generated.tlt.coordinator.v1 import coordinator_pb2 as pb
from tlt_common.domain.bounds import COUNTED_MAX, INT32_MAX, INT64_MAX, MAX_URI, require_name, require_range
from tlt_common.domain.fleet import HISTORY_CHANGES, PastChange, WorkerHello, WorkerState, WorkerStatus, in_a_line
from tlt_common.domain.ids import DrafterVersion, Epoch, PolicyVersion, WorkerId
from tlt_common.errors import InvalidRequestError

MAX_DEVICES = 1024
"""Of one worker."""

MOST_AGO_S = 1e9
"""Age of the oldest change of state that can be true: a worker that started decades ago."""

STATE_TO_PB = {
    WorkerState.ROLLOUT: pb.WORKER_STATE_ROLLOUT,
    WorkerState.TRAINING: pb.WORKER_STATE_TRAINING,
    WorkerState.SWITCHING: pb.WORKER_STATE_SWITCHING,
    WorkerState.UPDATING: pb.WORKER_STATE_UPDATING,
    WorkerState.IDLE: pb.WORKER_STATE_IDLE,
    WorkerState.DOWN: pb.WORKER_STATE_DOWN,
    WorkerState.STARTING: pb.WORKER_STATE_STARTING,
    WorkerState.RESTING: pb.WORKER_STATE_RESTING,
    WorkerState.TRAINER: pb.WORKER_STATE_TRAINER,
}
STATE_FROM_PB = {value: key for key, value in STATE_TO_PB.items()}


def hello_to_pb(hello: WorkerHello) -> pb.WorkerHello:
    return pb.WorkerHello(
        worker_id=hello.worker_id,
        address=hello.address,
        model=hello.model,
        device=hello.device,
        max_running=hello.max_running,
        pod=hello.pod,
        accepts_report_interval=hello.accepts_report_interval,
        device_count=hello.devices,
        training_device_count=hello.training_devices,
        changed_states=[STATE_TO_PB[change.state] for change in hello.history],
        changed_ago_s=[change.age_s for change in hello.history],
    )


def hello_from_pb(message: pb.WorkerHello) -> WorkerHello:
    """
    Raises:
        InvalidRequestError: A name is missing, too long or not printable, a number is out of range, or a change of
            state is older than the one before.
    """
    require_name("hello.worker_id", message.worker_id, least=1)
    require_name("hello.address", message.address, least=1)
    require_name("hello.model", message.model, most=MAX_URI)
    require_name("hello.device", message.device)
    require_name("hello.pod", message.pod)
    require_range("hello.max_running", message.max_running, low=0, high=INT32_MAX)
    # 0: a worker of an earlier version.
    devices, trained = message.device_count or 1, message.training_device_count or 1
    require_range("hello.device_count", devices, low=1, high=MAX_DEVICES)
    require_range("hello.training_device_count", trained, low=1, high=devices)
    return WorkerHello(
        worker_id=WorkerId(message.worker_id),
        address=message.address,
        model=message.model,
        device=message.device,
        max_running=message.max_running,
        pod=message.pod,
        accepts_report_interval=message.accepts_report_interval,
        devices=devices,
        training_devices=trained,
        history=_history(message),
    )


def _history(message: pb.WorkerHello) -> tuple[PastChange, ...]:
    states, ages = message.changed_states, message.changed_ago_s
    require_range("hello.changed_states", len(states), low=0, high=HISTORY_CHANGES)
    if len(states) != len(ages):
        raise InvalidRequestError(
            f"hello has {len(states)} changed_states and {len(ages)} changed_ago_s; accepted: as many of both",
            field="hello.changed_ago_s",
        )
    for state in states:
        if state not in STATE_FROM_PB:
            raise InvalidRequestError(
                f"hello.changed_states has {state}; accepted: WorkerStates", field="hello.changed_states"
            )
    for before_s, after_s in pairwise((MOST_AGO_S, *ages, 0.0)):
        if not before_s >= after_s >= 0.0:
            raise InvalidRequestError(
                f"hello.changed_ago_s has {after_s:g} after {before_s:g}; accepted: seconds ago, oldest first",
                field="hello.changed_ago_s",
            )
    return tuple(PastChange(state=STATE_FROM_PB[state], age_s=age_s) for state, age_s in zip(states, ages, strict=True))


def status_to_pb(status: WorkerStatus) -> pb.WorkerStatus:
    return pb.WorkerStatus(
        state=STATE_TO_PB[status.state],
        running_count=status.running,
        policy_version=status.policy_version,
        drafter_version=status.drafter_version,
        epoch=status.epoch,
        accept_length=status.accept_length,
        produced_tokens=status.produced_tokens,
        arm=status.arm,
        training_step_count=status.training_steps,
        training_token_count=status.training_tokens,
        training_loss=status.training_loss,
        trainer_ready=status.trainer_ready,
        lent=status.lent,
        training_s=status.training_s,
        training_age_s=status.training_age_s,
        trainer_resting=status.trainer_resting,
        training_gain=status.training_gain,
        training_passes=status.training_passes,
        drafter_pause_s=status.drafter_pause_s,
        problem=in_a_line(status.problem),
    )


def status_from_pb(message: pb.WorkerStatus) -> WorkerStatus:
    """
    Raises:
        InvalidRequestError: The state is not set, or a number is negative or not finite.
    """
    if message.state not in STATE_FROM_PB:
        raise InvalidRequestError("status.state is not set; accepted: a WorkerState", field="status.state")
    require_range("status.running_count", message.running_count, low=0, high=INT32_MAX)
    require_range("status.policy_version", message.policy_version, low=0, high=INT64_MAX)
    require_range("status.drafter_version", message.drafter_version, low=0, high=COUNTED_MAX)
    require_range("status.epoch", message.epoch, low=0, high=COUNTED_MAX)
    require_range("status.accept_length", message.accept_length, low=0, high=INT32_MAX)
    require_range("status.produced_tokens", message.produced_tokens, low=0, high=INT64_MAX)
    require_range("status.training_step_count", message.training_step_count, low=0, high=INT64_MAX)
    require_range("status.training_token_count", message.training_token_count, low=0, high=INT64_MAX)
    require_name("status.arm", message.arm)
    return WorkerStatus(
        state=STATE_FROM_PB[message.state],
        running=message.running_count,
        policy_version=PolicyVersion(message.policy_version),
        drafter_version=DrafterVersion(message.drafter_version),
        epoch=Epoch(message.epoch),
        accept_length=message.accept_length,
        produced_tokens=message.produced_tokens,
        arm=message.arm,
        training_steps=message.training_step_count,
        training_tokens=message.training_token_count,
        # Training that diverged is not a reason to lose the worker.
        training_loss=message.training_loss if isfinite(message.training_loss) else 0.0,
        trainer_ready=message.trainer_ready,
        lent=message.lent,
        training_s=_seconds(message.training_s, "status.training_s"),
        training_age_s=_seconds(message.training_age_s, "status.training_age_s"),
        trainer_resting=message.trainer_resting,
        training_gain=_gain(message),
        training_passes=_seconds(message.training_passes, "status.training_passes"),
        drafter_pause_s=_seconds(message.drafter_pause_s, "status.drafter_pause_s"),
        problem=in_a_line(message.problem),
    )


def _gain(message: pb.WorkerStatus) -> float | None:
    """Return the gain if it is known: training that diverged is not a reason to lose the worker."""
    return message.training_gain if message.HasField("training_gain") and isfinite(message.training_gain) else None


def _seconds(value: float, field: str) -> float:
    if not 0.0 <= value < float("inf"):
        raise InvalidRequestError(f"{field} is {value}; accepted: a finite number of at least 0", field=field)
    return value
