"""What the trainer's program tells whoever started it: one JSON object a line on stdout."""

import sys
from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from tlt_common.config.base import Frozen
from tlt_lab.demo.record import Side, Step


class Progress(Frozen):
    """A response of the step under way is finished."""

    kind: Literal["progress"] = "progress"
    step: int
    side: Side
    finished: int
    total: int


class Learning(Frozen):
    """The rollouts of the step are done; the policy is being updated."""

    kind: Literal["learning"] = "learning"
    step: int


class StepDone(Frozen):
    """A step is complete."""

    kind: Literal["step"] = "step"
    step: Step


Event = Annotated[Progress | Learning | StepDone, Field(discriminator="kind")]
_EVENT: TypeAdapter[Event] = TypeAdapter(Event)


def emit(event: Event) -> None:
    """Tell."""
    sys.stdout.write(event.model_dump_json() + "\n")
    sys.stdout.flush()


def parsed(line: bytes) -> Event | None:
    """Read a line; None if it is something else that was printed."""
    if not line.startswith(b'{"kind"'):
        return None
    return _EVENT.validate_json(line)
