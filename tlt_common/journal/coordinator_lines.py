"""What a coordinator writes down. Pure."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Literal, Self, TypeAlias

from pydantic import Field, model_validator

from tlt_common.domain.fleet import WorkerState
from tlt_common.journal.fields import Count, Name, Note, Positive, Ratio, Seconds, Share, Signed
from tlt_common.journal.line import DroppedLine, Line, at_most


class LeaseChange(StrEnum):
    """What became of a lease."""

    GRANTED = "granted"
    REVOKED = "revoked"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerLine(Line):
    """A worker joined."""

    kind: Literal["worker"] = "worker"

    worker: Name
    device: Note
    model: Note
    devices: Positive
    training_devices: Count
    """How many of them its trainer uses."""
    slots: Count
    """Requests that run at a time."""

    @model_validator(mode="after")
    def check(self) -> Self:
        at_most("training_devices", self.training_devices, "devices", self.devices)
        return self


@dataclass(frozen=True, slots=True, kw_only=True)
class StateLine(Line):
    """A worker is in another state from now on."""

    kind: Literal["state"] = "state"

    worker: Name
    state: WorkerState


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseLine(Line):
    """A worker was lent, or its lease was revoked."""

    kind: Literal["lease"] = "lease"

    worker: Name
    epoch: Positive
    change: LeaseChange
    reason: Note
    """Why it was revoked; empty when it is granted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainedLine(Line):
    """What a worker computed for training in about a minute. Workers that computed nothing have no line."""

    kind: Literal["trained"] = "trained"

    worker: Name
    seconds: Seconds
    """Device-seconds."""
    steps: Count
    """Optimizer steps on its drafter so far, across restarts."""
    tokens: Count
    """States that its drafter has learned from so far, across restarts and by all trainers whose work it contains."""
    passes: Ratio
    """How often its trainer has seen the data that it has, on average."""
    gain: Signed | None
    """Held-out tokens per round that it has gained lately per second of training; null: not known."""
    load_s: Seconds
    """For which its engine paused when it last loaded a drafter; 0: it has not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DrafterLine(Line):
    """A drafter was published."""

    kind: Literal["drafter"] = "drafter"

    version: Positive
    base: Count
    """Version it was trained from; 0: from scratch."""
    worker: Note
    """Whose trainer published it; empty: it is from outside the fleet."""
    top1: Share
    """Share of held-out positions whose most likely token it predicts; 0: not measured."""
    base_top1: Share | None
    """The same share for its base, on the same positions; null: not measured."""
    policy: Count
    """Newest policy among those that generated the held-out data."""
    tokens: Count
    """States that it has learned from, across restarts and by all trainers whose work it contains; 0: unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LendingLine(Line):
    """Lending is on or off from now on."""

    kind: Literal["lending"] = "lending"

    enabled: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ExcludedLine(Line):
    """Which workers are not lent from now on."""

    kind: Literal["excluded"] = "excluded"

    workers: tuple[Name, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderLine(Line):
    """The coordinator lends from now on, or no longer. While it does not, it writes nothing else."""

    kind: Literal["leader"] = "leader"

    leads: bool


CoordinatorLine: TypeAlias = Annotated[
    WorkerLine
    | StateLine
    | LeaseLine
    | TrainedLine
    | DrafterLine
    | LendingLine
    | ExcludedLine
    | LeaderLine
    | DroppedLine,
    Field(discriminator="kind"),
]
"""What a coordinator writes."""
