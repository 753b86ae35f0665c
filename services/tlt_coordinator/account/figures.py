"""Exported figures of a fleet, apart from its workers' own metrics."""

from collections.abc import Mapping
from dataclasses import dataclass

from tlt_common.domain.fleet import WorkerState
from tlt_common.domain.ids import DrafterVersion, PolicyVersion, WorkerId


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetFigures:
    """Figures of the whole fleet."""

    queued: int
    drafter: DrafterVersion
    """Newest drafter; 0 for none."""
    published_at_unix_s: float
    """Publication time of the newest drafter; 0 if there was none or it is unknown."""
    policy: PolicyVersion
    """Newest policy version reported by a worker."""
    lending: bool
    bubble_utilisation: float


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerStanding:
    """One worker in the ledger."""

    worker_id: WorkerId
    state: WorkerState
    seconds: Mapping[WorkerState, float]
    """Seconds that never decrease, without those that may still turn out to be training."""
