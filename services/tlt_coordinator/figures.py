"""The fleet as Prometheus sees it."""

from tlt_common.domain.fleet import Fleet, WorkerState
from tlt_common.domain.ids import DrafterVersion, PolicyVersion, WorkerId
from tlt_common.telemetry import metrics


class Figures:
    """Exports pictures of the fleet, each newer than the one before. Counters get what was added since."""

    def __init__(self) -> None:
        self._exported: dict[tuple[WorkerId, WorkerState], float] = {}
        self._drafter = DrafterVersion(0)
        self._drafter_since = PolicyVersion(0)
        """Policy version when this process first saw that drafter."""

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
        metrics.LENDING.set(fleet.lending)
        self._export_drafter(fleet)

    def _export_drafter(self, fleet: Fleet) -> None:
        version = fleet.drafter.version if fleet.drafter else DrafterVersion(0)
        policy = max((account.status.policy_version for account in fleet.workers), default=PolicyVersion(0))
        if version != self._drafter:
            self._drafter, self._drafter_since = version, policy
        metrics.DRAFTER_VERSION.set(version)
        metrics.DRAFTER_AGE.set(max(0, policy - self._drafter_since) if version else 0)
        metrics.DRAFTER_PUBLISHED.set(fleet.drafters[-1].at_unix_s if version and fleet.drafters else 0)

    def withdraw(self) -> None:
        """Show nothing any more: this replica does not know the fleet, and another one shows it."""
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
