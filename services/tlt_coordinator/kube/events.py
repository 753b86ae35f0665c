"""Kubernetes Events about role changes; repeated ones increase a count."""

import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime

from tlt_common.domain.ids import Epoch
from tlt_common.telemetry import metrics
from tlt_common.telemetry.log import get_logger
from tlt_coordinator.kube.api import ApiError, EventObject, Kube, KubeRefusedError, MissingError, PodObject
from tlt_coordinator.kube.pod_metadata import Role
from tlt_coordinator.kube.refusals import Refusals

log = get_logger(__name__)

REASON = "RoleChanged"
NAME_CHARACTERS = 230
"""Maximum characters of the pod's name in the name of an Event, which is limited to 253."""


class KubeEvents:
    """
    Creates one Event per pod and kind of change: a repeated change increases its count and updates its message.

    Best effort: an Event that the API server does not accept is dropped and counted.
    """

    def __init__(
        self, kube: Kube, refusals: Refusals, *, wall: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self._kube = kube
        self._refusals = refusals
        self._wall = wall
        self._made: dict[tuple[str, Role, Role], EventObject] = {}

    async def role_changed(self, pod: PodObject, before: Role, after: Role, epoch: Epoch) -> None:
        """Record a pod's role change, with the epoch of the lease that began or ended."""
        key, now = (pod.uid, before, after), self._wall()
        message = f"from {before} to {after}, epoch {epoch}"
        try:
            made = self._made.get(key)
            if made is not None:
                try:
                    again = replace(made, count=made.count + 1, last_at=now, message=message)
                    await self._kube.repeat_event(again)
                    self._made[key] = again
                except MissingError:
                    made = None
            if made is None:
                name = f"{pod.name[:NAME_CHARACTERS]}.{time.time_ns():x}"
                event = EventObject(name=name, pod=pod, reason=REASON, message=message, first_at=now, last_at=now)
                await self._kube.create_event(event)
                self._made[key] = event
        except ApiError as error:
            metrics.POD_EVENTS.labels(outcome="failed").inc()
            if isinstance(error, KubeRefusedError):
                self._refusals.note(error, consequence="role changes are not recorded as Events")
            else:
                log.warning("event_not_made", pod=pod.name, reason=str(error))
        else:
            metrics.POD_EVENTS.labels(outcome="made").inc()

    def forget(self, pod_uid: str) -> None:
        """Discard the Events of a pod that no longer exists."""
        self._made = {key: event for key, event in self._made.items() if key[0] != pod_uid}
