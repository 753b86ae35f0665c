"""One replica of the coordinator in Kubernetes: stands by, leads, stands by again."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Never, TypeAlias

from tlt_common.telemetry.log import get_logger
from tlt_coordinator.clock import Clock
from tlt_coordinator.config import CoordinatorConfig, KubernetesSettings
from tlt_coordinator.coordinator import Coordinator
from tlt_coordinator.kube.api import Kube
from tlt_coordinator.kube.events import Events
from tlt_coordinator.kube.keeper import LeaseKeeper, LostError, Term
from tlt_coordinator.kube.leader_label import LeaderLabel
from tlt_coordinator.kube.pods import PodReporter
from tlt_coordinator.kube.refusals import Refusals
from tlt_coordinator.post import Post
from tlt_coordinator.state import Store

log = get_logger(__name__)

Part: TypeAlias = Callable[[Coordinator], Coroutine[None, None, Never]]


class Replica:
    """
    Takes its post when it leads, and leaves it before another replica can lead.

    Args:
        export: What else runs beside a coordinator.
    """

    def __init__(
        self, config: CoordinatorConfig, settings: KubernetesSettings, kube: Kube, clock: Clock, *, export: Part
    ) -> None:
        self._config = config
        self._settings = settings
        self._kube = kube
        self._clock = clock
        self._export = export
        self._keeper = LeaseKeeper(kube, settings)
        self.post = Post(leader=lambda: self._keeper.leader)

    async def run(self) -> Never:
        """
        Live until cancelled; the Lease is given up then, after everything that leads has ended.

        Raises:
            ConfigError: What the Lease keeps is not a coordinator's state.
        """
        try:
            while True:
                await self._lead(await self._keeper.campaign())
        finally:
            await self._keeper.release()

    async def _lead(self, term: Term) -> None:
        coordinator = Coordinator(self._config, Store(term.state, term), self._clock)
        refusals = Refusals()
        reporter = PodReporter(self._kube, coordinator.known, Events(self._kube, refusals), refusals)
        label = LeaderLabel(self._kube, self._settings.pod, refusals)
        log.info("leading", pod=self._settings.pod, lease=self._settings.lease, epoch=term.state.reserved_epoch)
        try:
            async with asyncio.TaskGroup() as parts:
                for part in (coordinator.run(), self._export(coordinator), reporter.run(), label.run()):
                    parts.create_task(part)
                # The post is vacant before the parts are waited for: one of them may be amid a call.
                with self.post.taken_by(coordinator, leads=lambda: self._keeper.leads):
                    await self._keeper.hold()
        except* LostError as lost:
            log.warning("lease_lost", pod=self._settings.pod, reason=str(lost.exceptions[0]))
