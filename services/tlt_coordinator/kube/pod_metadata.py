"""Labels and annotations that show the role of the workers in a pod. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from tlt_common.domain.fleet import Member, WorkerState, WorkerStatus
from tlt_common.domain.ids import DrafterVersion, Epoch, WorkerId

ROLE_LABEL = "tlt.dev/role"
EPOCH_ANNOTATION = "tlt.dev/epoch"
DRAFTER_ANNOTATION = "tlt.dev/drafter-version"


class Role(StrEnum):
    """What the pod's device is used for."""

    ROLLOUT = "rollout"
    TRAINING = "training"
    """The device trains the drafter under a lease."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodMetadata:
    """Desired labels and annotations of a pod."""

    role: Role
    epoch: Epoch
    """Of the lease it trains under; 0: none."""
    drafter_version: DrafterVersion
    """The oldest version loaded by a worker in the pod; 0: none."""
    alive: bool = True
    """Whether a worker in the pod is connected. Not shown: a worker that reconnects may be in a new pod of the same
    name."""

    @property
    def labels(self) -> Mapping[str, str]:
        return {ROLE_LABEL: self.role}

    @property
    def annotations(self) -> Mapping[str, str]:
        return {EPOCH_ANNOTATION: str(self.epoch), DRAFTER_ANNOTATION: str(self.drafter_version)}


class Pods:
    """
    The metadata of every pod named by a worker, updated by the workers that changed.

    Workers in the same pod share its metadata: the pod trains when one of them does.
    """

    def __init__(self) -> None:
        self._workers: dict[str, dict[WorkerId, WorkerStatus]] = {}
        self._pod_of: dict[WorkerId, str] = {}
        self._metadata: dict[str, PodMetadata] = {}

    def see(self, changed: Iterable[Member]) -> Mapping[str, PodMetadata]:
        """Record workers that changed; return the metadata of all pods."""
        touched: set[str] = set()
        for member in changed:
            worker_id, pod = member.hello.worker_id, member.hello.pod
            former = self._pod_of.pop(worker_id, "")
            if former:
                del self._workers[former][worker_id]
                touched.add(former)
            if pod:
                self._pod_of[worker_id] = pod
                self._workers.setdefault(pod, {})[worker_id] = member.status
                touched.add(pod)
        for pod in touched:
            if self._workers[pod]:
                self._metadata[pod] = _metadata(list(self._workers[pod].values()))
            else:
                del self._workers[pod]
                self._metadata.pop(pod, None)
        return self._metadata


def _metadata(statuses: list[WorkerStatus]) -> PodMetadata:
    states = {status.state for status in statuses}
    return PodMetadata(
        role=Role.TRAINING if WorkerState.TRAINING in states else Role.ROLLOUT,
        epoch=max(status.epoch for status in statuses),
        drafter_version=min(status.drafter_version for status in statuses),
        alive=states != {WorkerState.DOWN},
    )
