"""What a worker tells the coordinator about itself: its hello and its status."""

from itertools import pairwise
from math import isfinite

from tlt_common._generated.tlt.coordinator.v1 import coordinator_pb2 as pb
from tlt_common.domain.bounds import INT32_MAX, MAX_URI, require_count, require_range
from tlt_common.domain.fleet import HISTORY_CHANGES, PastChange, WorkerHello, WorkerState, WorkerStatus, in_a_line
from tlt_common.errors import InvalidRequestError
from tlt_common.wire.convert import Field, Parts, member_of, numbers_of, pair
from tlt_common.wire.rules import named, ranged, taken

MAX_DEVICES = 1024
"""Of one worker."""

MOST_AGO_S = 1e9
"""Age of the oldest change of state that can be true: a worker that started decades ago."""

STATE_TO_PB = numbers_of(WorkerState, pb.WorkerState.DESCRIPTOR)
STATE_FROM_PB = {number: state for state, number in STATE_TO_PB.items()}


def _devices(path: str, count: int) -> int:
    require_range(path, count or 1, low=1, high=MAX_DEVICES)
    return count or 1  # 0: a worker of an earlier version


def _training_devices(within: str, message: pb.WorkerHello) -> int:
    count = message.training_device_count or 1
    require_range(f"{within}training_device_count", count, low=1, high=message.device_count or 1)
    return count


def _history(within: str, message: pb.WorkerHello) -> tuple[PastChange, ...]:
    states, ages = message.changed_states, message.changed_ago_s
    require_count(f"{within}changed_states", len(states), most=HISTORY_CHANGES)
    if len(states) != len(ages):
        raise InvalidRequestError(
            f"{within}changed_ago_s has {len(ages)} entries, changed_states {len(states)}; accepted: as many of both",
            field=f"{within}changed_ago_s",
        )
    for before_s, after_s in pairwise((MOST_AGO_S, *ages, 0.0)):
        if not before_s >= after_s >= 0.0:
            raise InvalidRequestError(
                f"{within}changed_ago_s has {after_s:g} after {before_s:g}; accepted: seconds ago, oldest first",
                field=f"{within}changed_ago_s",
            )
    return tuple(
        PastChange(state=member_of(STATE_FROM_PB, f"{within}changed_states", state), age_s=age_s)
        for state, age_s in zip(states, ages, strict=True)
    )


# Training that diverged is not a reason to lose the worker.
pair(
    WorkerStatus,
    pb.WorkerStatus,
    checked=True,
    accept_length=Field(read=ranged(0, INT32_MAX)),
    training_loss=Field(read=taken(lambda loss: loss if isfinite(loss) else 0.0)),
    training_gain=Field(read=taken(lambda gain: gain if isfinite(gain) else None)),
    problem=Field(read=taken(in_a_line), write=in_a_line),
)
pair(
    WorkerHello,
    pb.WorkerHello,
    checked=True,
    worker_id=Field(read=named(1)),
    address=Field(read=named(1)),
    model=Field(read=named(most=MAX_URI)),
    devices=Field(read=_devices),
    training_devices=Parts({"training_device_count": lambda hello: hello.training_devices}, _training_devices),
    history=Parts(
        {
            "changed_states": lambda hello: [STATE_TO_PB[change.state] for change in hello.history],
            "changed_ago_s": lambda hello: [change.age_s for change in hello.history],
        },
        _history,
    ),
)
