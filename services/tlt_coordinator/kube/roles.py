"""What pods say of their workers. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from tlt_common.domain.fleet import Member, WorkerState, WorkerStatus
from tlt_common.domain.ids import DrafterVersion, Epoch

ROLE_LABEL = "tlt.dev/role"
EPOCH_ANNOTATION = "tlt.dev/epoch"
DRAFTER_ANNOTATION = "tlt.dev/drafter-version"


class Role(StrEnum):
    """What the device of a pod is there for now."""

    ROLLOUT = "rollout"
    TRAINING = "training"
    """It trains the drafter on a lease."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Badge:
    """What a pod should say."""

    role: Role
    epoch: Epoch
    """Of the lease it trains on; 0: none."""
    drafter_version: DrafterVersion
    """The oldest that a worker in it has loaded; 0: none."""
    alive: bool = True
    """Whether a worker is there. Not shown: one that comes back may be in a new pod of the same name."""

    @property
    def labels(self) -> Mapping[str, str]:
        return {ROLE_LABEL: self.role}

    @property
    def annotations(self) -> Mapping[str, str]:
        return {EPOCH_ANNOTATION: str(self.epoch), DRAFTER_ANNOTATION: str(self.drafter_version)}


def badges(members: Iterable[Member]) -> dict[str, Badge]:
    """
    The badge of every pod that a worker named.

    Workers that share a pod share its badge: it trains when one of them does.
    """
    pods: dict[str, list[Member]] = {}
    for member in members:
        if member.hello.pod:
            pods.setdefault(member.hello.pod, []).append(member)
    return {pod: _badge([member.status for member in sharing]) for pod, sharing in pods.items()}


def _badge(statuses: list[WorkerStatus]) -> Badge:
    states = {status.state for status in statuses}
    return Badge(
        role=Role.TRAINING if WorkerState.TRAINING in states else Role.ROLLOUT,
        epoch=max(status.epoch for status in statuses),
        drafter_version=min(status.drafter_version for status in statuses),
        alive=states != {WorkerState.DOWN},
    )
