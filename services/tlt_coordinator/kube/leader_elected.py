"""One replica of the coordinator in Kubernetes: a standby that leads while it holds the Lease."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Never, TypeAlias

from tlt_common.telemetry.log import get_logger
from tlt_common.telemetry.optional import kept_running
from tlt_coordinator.active import ActiveCoordinator
from tlt_coordinator.clock import Clock
from tlt_coordinator.config import CoordinatorConfig, KubernetesSettings
from tlt_coordinator.coordinator import Coordinator
from tlt_coordinator.journal import NO_JOURNAL, CoordinatorJournal
from tlt_coordinator.kube.api import Kube
from tlt_coordinator.kube.events import KubeEvents
from tlt_coordinator.kube.leader_label import LeaderLabel
from tlt_coordinator.kube.leader_lease import LeaderLease, LostError, Term
from tlt_coordinator.kube.pod_reporter import PodReporter
from tlt_coordinator.kube.refusals import Refusals
from tlt_coordinator.state import StateStore

log = get_logger(__name__)

Part: TypeAlias = Callable[[Coordinator], Coroutine[None, None, Never]]


class LeaderElectedCoordinator:
    """
    Activates its coordinator while it leads, and deactivates it before another replica can lead.

    Args:
        beside: Runs beside the coordinator, for example to export metrics.
        journal: Of this replica.
    """

    def __init__(
        self,
        config: CoordinatorConfig,
        settings: KubernetesSettings,
        kube: Kube,
        clock: Clock,
        *,
        beside: Part,
        journal: CoordinatorJournal = NO_JOURNAL,
    ) -> None:
        self._config = config
        self._settings = settings
        self._kube = kube
        self._clock = clock
        self._beside = beside
        self._journal = journal
        self._lease = LeaderLease(kube, settings)
        self.active = ActiveCoordinator(leader=lambda: self._lease.leader)

    async def run(self) -> Never:
        """
        Run until cancelled; then release the Lease, after everything that depends on it has ended.

        Raises:
            ConfigError: The state stored in the Lease is not valid.
        """
        try:
            while True:
                await self._lead(await self._lease.acquire())
        finally:
            await self._lease.release()

    async def _lead(self, term: Term) -> None:
        coordinator = Coordinator(self._config, StateStore(term.state, term), self._clock, self._journal)
        refusals = Refusals()
        reporter = PodReporter(self._kube, coordinator.changed, KubeEvents(self._kube, refusals), refusals)
        label = LeaderLabel(self._kube, self._settings.pod, refusals)
        log.info("leading", pod=self._settings.pod, lease=self._settings.lease, epoch=term.state.reserved_epoch)
        try:
            async with asyncio.TaskGroup() as parts:
                pods, leader = kept_running("pods", reporter.run), kept_running("leader label", label.run)
                for part in (coordinator.run(), self._beside(coordinator), pods, leader):
                    parts.create_task(part)
                # Deactivate before waiting for the parts: one of them may be in the middle of a call.
                with self.active.activate(coordinator, leads=lambda: self._lease.leads):
                    await self._lease.hold()
        except* LostError as lost:
            log.warning("lease_lost", pod=self._settings.pod, reason=str(lost.exceptions[0]))
