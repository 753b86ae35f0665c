"""What is exported of a fleet, apart from its workers' own reports."""

from collections.abc import Mapping
from dataclasses import dataclass

from tlt_common.domain.fleet import WorkerState
from tlt_common.domain.ids import DrafterVersion, PolicyVersion, WorkerId


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetFigures:
    """Figures of the whole fleet."""

    queued: int
    drafter: DrafterVersion
    """Newest drafter; 0: none."""
    published_at_unix_s: float
    """When the newest drafter was published; 0: never, or not known."""
    policy: PolicyVersion
    """Newest policy version that a worker reported."""
    lending: bool
    bubble_utilisation: float


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerStanding:
    """One worker in the ledger."""

    worker_id: WorkerId
    state: WorkerState
    seconds: Mapping[WorkerState, float]
    """Seconds that only increase, without what may still turn out to be training."""
