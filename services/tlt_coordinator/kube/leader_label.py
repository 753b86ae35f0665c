"""The label by which the coordinator's Service selects the leader."""

import asyncio
from typing import Never

from tlt_common.telemetry.log import get_logger
from tlt_coordinator.kube.api import ApiError, Kube, KubeRefusedError, MissingError
from tlt_coordinator.kube.refusals import Refusals

log = get_logger(__name__)

LEADER_LABEL = "tlt.dev/leader"
MATE_LABELS = ("app.kubernetes.io/instance", "app.kubernetes.io/component")
"""Pods that share both with the leader's pod are its replicas."""

CHECK_EVERY_S = 10.0
"""Seconds between checks of the label: a patch of the previous leader may arrive late, and users may edit labels."""

RETRY_S = 1.0


class LeaderLabel:
    """
    Keeps the label on this replica's pod, and removes it from the others.

    Args:
        pod: Name of this replica's pod.
    """

    def __init__(self, kube: Kube, pod: str, refusals: Refusals) -> None:
        self._kube = kube
        self._pod = pod
        self._refusals = refusals

    async def run(self) -> Never:
        """Set and maintain the label until cancelled. Run it only while this replica leads."""
        while True:
            try:
                await self._set()
            except KubeRefusedError as error:
                self._refusals.note(error, consequence="the coordinator's Service does not select the leader")
                await asyncio.sleep(CHECK_EVERY_S)
            except ApiError as error:
                log.warning("leader_not_labelled", pod=self._pod, reason=str(error))
                await asyncio.sleep(RETRY_S)
            else:
                await asyncio.sleep(CHECK_EVERY_S)

    async def _set(self) -> None:
        own = await self._kube.pod(self._pod)
        if own.labels.get(LEADER_LABEL) != "true":
            # Before it is removed from others: two selected pods are better than none.
            await self._kube.patch_pod(self._pod, labels={LEADER_LABEL: "true"})
            log.info("leader_labelled", pod=self._pod)
        mates = {label: own.labels[label] for label in MATE_LABELS if label in own.labels}
        if len(mates) < len(MATE_LABELS):
            return  # without them, leaders of other fleets cannot be distinguished from former ones of this fleet
        for pod in await self._kube.pods({**mates, LEADER_LABEL: "true"}):
            if pod.name != self._pod:
                try:
                    await self._kube.patch_pod(pod.name, labels={LEADER_LABEL: None})
                except MissingError:
                    continue
