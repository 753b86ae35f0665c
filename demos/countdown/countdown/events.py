"""Events that the trainer program writes to stdout, one JSON object per line."""

import sys
from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from countdown.record import Side, Step
from tlt_common.config.base import Frozen


class Progress(Frozen):
    """A response of the current step has finished."""

    kind: Literal["progress"] = "progress"
    step: int
    side: Side
    finished: int
    total: int


class Learning(Frozen):
    """The rollouts of the step have finished; the policy is being updated."""

    kind: Literal["learning"] = "learning"
    step: int


class Stage(Frozen):
    """A stage outside the steps has begun."""

    kind: Literal["stage"] = "stage"
    text: str


class StepDone(Frozen):
    """A step is complete."""

    kind: Literal["step"] = "step"
    step: Step


Event = Annotated[Progress | Learning | Stage | StepDone, Field(discriminator="kind")]
_EVENT: TypeAdapter[Event] = TypeAdapter(Event)


def emit(event: Event) -> None:
    """Write an event to stdout."""
    sys.stdout.write(event.model_dump_json() + "\n")
    sys.stdout.flush()


def parsed(line: bytes) -> Event | None:
    """Parse a line of output; None if it is not an event."""
    if not line.startswith(b'{"kind"'):
        return None
    return _EVENT.validate_json(line)
