"""A coordinator's place in a Kubernetes cluster: its state there, and what pods show of their workers."""

import asyncio
from collections.abc import Callable
from typing import Never

from tlt_common.telemetry.optional import kept_running
from tlt_coordinator.config import KubernetesSettings
from tlt_coordinator.coordinator import Coordinator
from tlt_coordinator.kube.api import Kube
from tlt_coordinator.kube.config_map_state import ConfigMapState
from tlt_coordinator.kube.events import KubeEvents
from tlt_coordinator.kube.pod_reporter import PodReporter
from tlt_coordinator.kube.refusals import Refusals
from tlt_coordinator.state import StateStore


class Cluster:
    """The cluster of one coordinator."""

    def __init__(self, kube: Kube, settings: KubernetesSettings) -> None:
        self._kube = kube
        self._refusals = Refusals()
        self._state = ConfigMapState(kube, settings, self._refusals)

    async def open(self, now: Callable[[], float]) -> StateStore:
        """
        Read the state, once the API server answers. `now` returns the Unix time.

        Raises:
            ConfigError: What is stored is no coordinator's state.
        """
        return StateStore(await self._state.read(now), self._state)

    async def run(self, coordinator: Coordinator) -> Never:
        """
        Show the roles of workers until cancelled.

        Raises:
            UnavailableError: Another coordinator is at work.
        """
        events = KubeEvents(self._kube, self._refusals)
        reporter = PodReporter(self._kube, coordinator.changed, events, self._refusals)
        async with asyncio.TaskGroup() as parts:
            parts.create_task(kept_running("pods", reporter.run), name="pods")
            await self._state.run()
        raise AssertionError("the parts never end")
