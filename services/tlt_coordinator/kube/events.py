"""Kubernetes Events about changes of role, the same one counted instead of repeated."""

import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime

from tlt_common.domain.ids import Epoch
from tlt_common.telemetry import metrics
from tlt_common.telemetry.log import get_logger
from tlt_coordinator.kube.api import ApiError, EventObject, Kube, MissingError, PodObject, RefusedError
from tlt_coordinator.kube.refusals import Refusals
from tlt_coordinator.kube.roles import Role

log = get_logger(__name__)

REASON = "RoleChanged"
NAME_CHARACTERS = 230
"""Of the pod's name within the Event's, which has 253 at most."""


class Events:
    """
    Tells what happened, once per kind of change and pod: the same change again counts up the Event and renews its text.

    Best effort: an Event that the API server does not take is dropped and counted.
    """

    def __init__(
        self, kube: Kube, refusals: Refusals, *, wall: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self._kube = kube
        self._refusals = refusals
        self._wall = wall
        self._made: dict[tuple[str, Role, Role], EventObject] = {}

    async def role_changed(self, pod: PodObject, before: Role, after: Role, epoch: Epoch) -> None:
        """Tell that a pod changed its role, by the lease of that epoch that began or ended."""
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
            if isinstance(error, RefusedError):
                self._refusals.note(error, consequence="no Events tell of changed roles")
            else:
                log.warning("event_not_made", pod=pod.name, reason=str(error))
        else:
            metrics.POD_EVENTS.labels(outcome="made").inc()

    def forget(self, pod_uid: str) -> None:
        """A pod is gone."""
        self._made = {key: event for key, event in self._made.items() if key[0] != pod_uid}
