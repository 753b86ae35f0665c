"""The label by which the coordinator's Service finds the leader."""

import asyncio
from typing import Never

from tlt_common.telemetry.log import get_logger
from tlt_coordinator.kube.api import ApiError, Kube, MissingError, RefusedError
from tlt_coordinator.kube.refusals import Refusals

log = get_logger(__name__)

LEADER_LABEL = "tlt.dev/leader"
MATE_LABELS = ("app.kubernetes.io/instance", "app.kubernetes.io/component")
"""Pods that share both with the leader's are its replicas."""

CHECK_EVERY_S = 10.0
"""A patch of the leader before may arrive late, and people may edit labels: what is wrong is put right so often."""

RETRY_S = 1.0


class LeaderLabel:
    """
    Keeps the label on this replica's pod, and off the others.

    Args:
        pod: Name of this replica's pod.
    """

    def __init__(self, kube: Kube, pod: str, refusals: Refusals) -> None:
        self._kube = kube
        self._pod = pod
        self._refusals = refusals

    async def run(self) -> Never:
        """Set it, and put it right again, until cancelled. Must run only while this replica leads."""
        while True:
            try:
                await self._set()
            except RefusedError as error:
                self._refusals.note(error, consequence="the coordinator's Service does not find the leader")
                await asyncio.sleep(CHECK_EVERY_S)
            except ApiError as error:
                log.warning("leader_not_labelled", pod=self._pod, reason=str(error))
                await asyncio.sleep(RETRY_S)
            else:
                await asyncio.sleep(CHECK_EVERY_S)

    async def _set(self) -> None:
        own = await self._kube.pod(self._pod)
        if own.labels.get(LEADER_LABEL) != "true":
            # Before it is taken from others: the Service had better find two pods than none.
            await self._kube.patch_pod(self._pod, labels={LEADER_LABEL: "true"})
            log.info("leader_labelled", pod=self._pod)
        mates = {label: own.labels[label] for label in MATE_LABELS if label in own.labels}
        if len(mates) < len(MATE_LABELS):
            return  # without them other fleets' leaders cannot be told from former ones of this
        for pod in await self._kube.pods({**mates, LEADER_LABEL: "true"}):
            if pod.name != self._pod:
                try:
                    await self._kube.patch_pod(pod.name, labels={LEADER_LABEL: None})
                except MissingError:
                    continue
