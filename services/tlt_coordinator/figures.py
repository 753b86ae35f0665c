"""The fleet as Prometheus sees it."""

from tlt_common.domain.fleet import Fleet, WorkerState
from tlt_common.domain.ids import WorkerId
from tlt_common.telemetry import metrics


class Figures:
    """Exports pictures of the fleet, each newer than the one before. Counters get what was added since."""

    def __init__(self) -> None:
        self._exported: dict[tuple[WorkerId, WorkerState], float] = {}

    def export(self, fleet: Fleet) -> None:
        """Set all gauges, and bring the counters of seconds up to date."""
        for account in fleet.workers:
            worker_id = account.hello.worker_id
            for state, seconds in account.seconds.items():
                key = (worker_id, state)
                added_s = seconds - self._exported.get(key, 0.0)
                metrics.WORKER_STATE_SECONDS.labels(worker=worker_id, state=state).inc(added_s)
                metrics.WORKER_STATE.labels(worker=worker_id, state=state).set(state is account.status.state)
                self._exported[key] = seconds
        metrics.BUBBLE_UTILISATION.set(fleet.bubble_utilisation)
        metrics.FLEET_QUEUED.set(fleet.queued)
        metrics.DRAFTER_VERSION.set(fleet.drafter.version if fleet.drafter else 0)
