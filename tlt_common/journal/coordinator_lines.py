"""Lines of a coordinator's journal. Pure."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Literal, Self, TypeAlias

from pydantic import Field, model_validator

from tlt_common.domain.fleet import WorkerState
from tlt_common.journal.fields import Count, Name, Note, Positive, Ratio, Seconds, Share, Signed
from tlt_common.journal.line import DroppedLine, Line, at_most


class LeaseChange(StrEnum):
    """Change of a lease."""

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
    """Number of devices that its trainer uses."""
    slots: Count
    """Number of requests that it runs concurrently."""

    @model_validator(mode="after")
    def check(self) -> Self:
        at_most("training_devices", self.training_devices, "devices", self.devices)
        return self


@dataclass(frozen=True, slots=True, kw_only=True)
class StateLine(Line):
    """A worker changed its state."""

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
    """Why the lease was revoked; empty if it was granted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainedLine(Line):
    """Training of a worker in about a minute. Workers that did not train have no line."""

    kind: Literal["trained"] = "trained"

    worker: Name
    seconds: Seconds
    """Device-seconds of training."""
    steps: Count
    """Optimizer steps on its drafter so far, across restarts."""
    tokens: Count
    """States that its drafter has learned from so far, across restarts and all contributing trainers."""
    passes: Ratio
    """Average number of passes of its trainer over its data."""
    gain: Signed | None
    """Recent gain in held-out tokens per round, per second of training; null if unknown."""
    load_s: Seconds
    """Duration in seconds of its engine's pause for the last loaded drafter; 0 if none was loaded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DrafterLine(Line):
    """A drafter was published."""

    kind: Literal["drafter"] = "drafter"

    version: Positive
    base: Count
    """Version it was trained from; 0 if trained from scratch."""
    worker: Note
    """Worker whose trainer published it; empty if it is from outside the fleet."""
    top1: Share
    """Share of held-out positions whose most likely token it predicts; 0 if not measured."""
    base_top1: Share | None
    """The same share for its base on the same positions; null if not measured."""
    policy: Count
    """Newest policy version that generated the held-out data."""
    tokens: Count
    """States that it has learned from, across restarts and all contributing trainers; 0 if unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LendingLine(Line):
    """Lending was enabled or disabled."""

    kind: Literal["lending"] = "lending"

    enabled: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ExcludedLine(Line):
    """The set of workers excluded from lending changed."""

    kind: Literal["excluded"] = "excluded"

    workers: tuple[Name, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderLine(Line):
    """The coordinator began or stopped lending. While it does not lend, it writes nothing else."""

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
"""Lines that a coordinator writes."""
