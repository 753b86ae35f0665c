"""Shows the roles of workers as labels, annotations and Events of their pods. Best effort; nothing waits for it."""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Never

from tlt_common.aio import backoff
from tlt_common.domain.fleet import Member
from tlt_common.telemetry import metrics
from tlt_common.telemetry.log import get_logger
from tlt_coordinator.kube.api import ApiError, Kube, KubeRefusedError, MissingError, PodObject
from tlt_coordinator.kube.events import KubeEvents
from tlt_coordinator.kube.pod_metadata import ROLE_LABEL, PodMetadata, Pods, Role
from tlt_coordinator.kube.refusals import Refusals

log = get_logger(__name__)

POLL_S = 0.25
"""Seconds between checks for changes."""

PATCH_EVERY_S = 1.0
"""Minimum seconds between two patches of a pod; changes in between are combined."""

CHECK_EVERY_S = 300.0
"""Seconds after which a pod is read again: it may have been replaced by one of the same name, or edited by hand."""

AT_ONCE = 8
"""Concurrent calls: a fleet whose roles change together must not slow down other clients of the API server."""

MAX_RETRY_S = 60.0


@dataclass(slots=True)
class _Known:
    """One pod, as last read and reported."""

    reported: PodMetadata | None = None
    """Metadata that the pod has, or would have if it existed; None: unknown."""
    pod: PodObject | None = None
    """None: the pod must be read first."""
    role: Role | None = None
    """Role in `reported`, or the one the pod showed before."""
    due_at_s: float = 0.0
    check_at_s: float = 0.0
    delays: Iterator[float] | None = None
    """Seconds until the next attempt, after each failure in a row; None: the last attempt succeeded."""


class PodReporter:
    """
    Keeps the metadata of pods equal to the latest status of their workers. Failures of the API server affect nothing
    else.

    Args:
        changed: Returns the workers that changed since a call before, with their last status, and a number for the next
            call; see `Coordinator.changed`.
    """

    def __init__(
        self, kube: Kube, changed: Callable[[int], tuple[int, list[Member]]], events: KubeEvents, refusals: Refusals
    ) -> None:
        self._kube = kube
        self._changed = changed
        self._seen = 0
        self._pods = Pods()
        self._events = events
        self._refusals = refusals
        self._known: dict[str, _Known] = {}

    async def run(self) -> Never:
        """Report until cancelled."""
        while True:
            self._seen, changed = self._changed(self._seen)
            wanted = self._pods.see(changed)
            self._forget(wanted.keys())
            due = self._due(wanted, _now())
            async with asyncio.TaskGroup() as calls:
                for name in due[:AT_ONCE]:
                    calls.create_task(self._patch(name, wanted[name]), name=f"pod-{name}")
            if len(due) <= AT_ONCE:
                await asyncio.sleep(POLL_S)

    def _due(self, wanted: Mapping[str, PodMetadata], now_s: float) -> list[str]:
        """Return the pods that are outdated and may be written now, those that have waited longest first."""
        due: list[tuple[float, str]] = []
        for name, metadata in wanted.items():
            known = self._known.setdefault(name, _Known())
            if metadata.alive and (
                now_s >= known.check_at_s or (known.reported is not None and not known.reported.alive)
            ):
                known.pod, known.reported = None, None
            if metadata != known.reported and now_s >= known.due_at_s:
                due.append((known.due_at_s, name))
        return [name for _, name in sorted(due)]

    async def _patch(self, name: str, metadata: PodMetadata) -> None:
        known, now_s = self._known[name], _now()
        known.due_at_s, known.check_at_s = now_s + PATCH_EVERY_S, now_s + CHECK_EVERY_S
        try:
            pod = known.pod or await self._kube.pod(name)
            before = known.role or _role(pod)
            if not _shows(pod, metadata):
                pod = await self._kube.patch_pod(name, labels=metadata.labels, annotations=metadata.annotations)
                metrics.POD_PATCHES.labels(outcome="made").inc()
        except MissingError:
            if known.pod is not None:
                self._events.forget(known.pod.uid)
            known.reported, known.pod, known.role = metadata, None, None
            metrics.POD_PATCHES.labels(outcome="gone").inc()
            log.info("pod_gone", pod=name)
        except ApiError as error:
            self._fail(name, known, error)
        else:
            epoch = metadata.epoch or (known.reported.epoch if known.reported else metadata.epoch)
            known.reported, known.pod, known.role, known.delays = metadata, pod, metadata.role, None
            if metadata.role is not before:
                await self._events.role_changed(pod, before, metadata.role, epoch)

    def _fail(self, name: str, known: _Known, error: ApiError) -> None:
        known.pod = None  # the patch may have been applied
        known.delays = known.delays or backoff(2 * PATCH_EVERY_S, MAX_RETRY_S)
        retry_s = next(known.delays)
        if isinstance(error, KubeRefusedError):
            retry_s = MAX_RETRY_S
            metrics.POD_PATCHES.labels(outcome="refused").inc()
            self._refusals.note(error, consequence="pods do not show the roles of their workers")
        else:
            metrics.POD_PATCHES.labels(outcome="failed").inc()
            log.warning("pod_not_patched", pod=name, reason=str(error), retry_s=round(retry_s, 1))
        known.due_at_s = _now() + retry_s

    def _forget(self, wanted: Iterable[str]) -> None:
        for name in self._known.keys() - set(wanted):
            known = self._known.pop(name)
            if known.pod is not None:
                self._events.forget(known.pod.uid)


def _shows(pod: PodObject, metadata: PodMetadata) -> bool:
    return metadata.labels.items() <= pod.labels.items() and metadata.annotations.items() <= pod.annotations.items()


def _role(pod: PodObject) -> Role:
    """Return the role that a pod shows; a pod without the label is serving rollouts."""
    return Role.TRAINING if pod.labels.get(ROLE_LABEL) == Role.TRAINING else Role.ROLLOUT


def _now() -> float:
    return asyncio.get_running_loop().time()
