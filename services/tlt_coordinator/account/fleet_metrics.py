"""Prometheus metrics of the fleet."""

import prometheus_client

from tlt_common.domain.fleet import WorkerState
from tlt_common.domain.ids import DrafterVersion, PolicyVersion, WorkerId
from tlt_common.telemetry import metrics
from tlt_coordinator.account.figures import FleetFigures, WorkerStanding


class FleetMetrics:
    """Exports successive states of the fleet. Counters are incremented by the difference from the previous export."""

    def __init__(self) -> None:
        self._exported: dict[WorkerId, _Exported] = {}
        self._drafter = DrafterVersion(0)
        self._drafter_since = PolicyVersion(0)
        """Policy version when this process first saw the drafter."""

    def export_worker(self, standing: WorkerStanding) -> None:
        """Set the state of a worker, and advance its counters of seconds."""
        exported = self._exported.get(standing.worker_id)
        if exported is None:
            exported = self._exported[standing.worker_id] = _Exported(standing.worker_id)
        exported.advance(standing)

    def export(self, fleet: FleetFigures) -> None:
        """Set the gauges of the whole fleet."""
        metrics.BUBBLE_UTILISATION.set(fleet.bubble_utilisation)
        metrics.FLEET_QUEUED.set(fleet.queued)
        metrics.LENDING.set(fleet.lending)
        if fleet.drafter != self._drafter:
            self._drafter, self._drafter_since = fleet.drafter, fleet.policy
        metrics.DRAFTER_VERSION.set(fleet.drafter)
        metrics.DRAFTER_AGE.set(max(0, fleet.policy - self._drafter_since) if fleet.drafter else 0)
        metrics.DRAFTER_PUBLISHED.set(fleet.published_at_unix_s if fleet.drafter else 0)

    def withdraw(self) -> None:
        """Stop exporting the fleet."""
        metrics.WORKER_STATE_SECONDS.clear()
        metrics.WORKER_STATE.clear()
        for gauge in (
            metrics.BUBBLE_UTILISATION,
            metrics.FLEET_QUEUED,
            metrics.LENDING,
            metrics.DRAFTER_VERSION,
            metrics.DRAFTER_AGE,
            metrics.DRAFTER_PUBLISHED,
        ):
            gauge.set(0)


class _Exported:
    """Last exported values of one worker."""

    def __init__(self, worker_id: WorkerId) -> None:
        self._worker_id = worker_id
        self._state: WorkerState | None = None
        self._seconds = dict.fromkeys(WorkerState, 0.0)
        self._counters: dict[WorkerState, prometheus_client.Counter] = {
            state: metrics.WORKER_STATE_SECONDS.labels(worker=worker_id, state=state) for state in WorkerState
        }

    def advance(self, standing: WorkerStanding) -> None:
        for state, seconds in standing.seconds.items():
            if (added_s := seconds - self._seconds[state]) > 0.0:  # not below 0 by rounding
                self._counters[state].inc(added_s)
                self._seconds[state] = seconds
        if standing.state is not self._state:
            self._state = standing.state
            for state in WorkerState:
                metrics.WORKER_STATE.labels(worker=self._worker_id, state=state).set(state is standing.state)
