"""Roles of workers as labels, annotations and Events of their pods: after the fact, and never in anybody's way."""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Never

from tlt_common.domain.fleet import Member
from tlt_common.telemetry import metrics
from tlt_common.telemetry.log import get_logger
from tlt_coordinator.kube.api import ApiError, Kube, MissingError, PodObject, RefusedError
from tlt_coordinator.kube.events import Events
from tlt_coordinator.kube.refusals import Refusals
from tlt_coordinator.kube.roles import ROLE_LABEL, Badge, Role, badges

log = get_logger(__name__)

LOOK_S = 0.25
"""How long a change may wait to be noticed."""

PATCH_EVERY_S = 1.0
"""A pod is written at most so often; what changed meanwhile goes out as one."""

CHECK_EVERY_S = 300.0
"""A pod is read again so often: it may have been replaced by one of the same name, or edited by hand."""

AT_ONCE = 8
"""Calls under way together: a fleet that turns as one must not stand in the way of the cluster's other clients."""

LONGEST_RETRY_S = 60.0


@dataclass(slots=True)
class _Known:
    """One pod, as it was last seen and told."""

    told: Badge | None = None
    """What it says, or would if it were there; None: not known."""
    pod: PodObject | None = None
    """None: it must be read first."""
    role: Role | None = None
    """Of `told`, or of what it said before this replica led."""
    due_at_s: float = 0.0
    check_at_s: float = 0.0
    failures: int = 0


class PodReporter:
    """
    Keeps pods at what their workers say, the latest only. Whatever the API server does, nothing else notices.

    Args:
        members: All workers ever seen, as last heard.
    """

    def __init__(self, kube: Kube, members: Callable[[], Iterable[Member]], events: Events, refusals: Refusals) -> None:
        self._kube = kube
        self._members = members
        self._events = events
        self._refusals = refusals
        self._known: dict[str, _Known] = {}

    async def run(self) -> Never:
        """Report until cancelled."""
        while True:
            wanted = badges(self._members())
            self._forget(wanted.keys())
            due = self._due(wanted, _now())
            async with asyncio.TaskGroup() as calls:
                for name in due[:AT_ONCE]:
                    calls.create_task(self._tell(name, wanted[name]), name=f"pod-{name}")
            if len(due) <= AT_ONCE:
                await asyncio.sleep(LOOK_S)

    def _due(self, wanted: dict[str, Badge], now_s: float) -> list[str]:
        """Pods that may be written now and say something else than they should, those that waited longest first."""
        due: list[tuple[float, str]] = []
        for name, badge in wanted.items():
            known = self._known.setdefault(name, _Known())
            if badge.alive and (now_s >= known.check_at_s or (known.told is not None and not known.told.alive)):
                known.pod, known.told = None, None
            if badge != known.told and now_s >= known.due_at_s:
                due.append((known.due_at_s, name))
        return [name for _, name in sorted(due)]

    async def _tell(self, name: str, badge: Badge) -> None:
        known, now_s = self._known[name], _now()
        known.due_at_s, known.check_at_s = now_s + PATCH_EVERY_S, now_s + CHECK_EVERY_S
        try:
            pod = known.pod or await self._kube.pod(name)
            before = known.role or _role(pod)
            if not _says(pod, badge):
                pod = await self._kube.patch_pod(name, labels=badge.labels, annotations=badge.annotations)
                metrics.POD_PATCHES.labels(outcome="made").inc()
        except MissingError:
            if known.pod is not None:
                self._events.forget(known.pod.uid)
            known.told, known.pod, known.role = badge, None, None
            metrics.POD_PATCHES.labels(outcome="gone").inc()
            log.info("pod_gone", pod=name)
        except ApiError as error:
            self._fail(name, known, error)
        else:
            epoch = badge.epoch or (known.told.epoch if known.told else badge.epoch)
            known.told, known.pod, known.role, known.failures = badge, pod, badge.role, 0
            if badge.role is not before:
                await self._events.role_changed(pod, before, badge.role, epoch)

    def _fail(self, name: str, known: _Known, error: ApiError) -> None:
        known.pod = None  # the patch may have been taken
        known.failures += 1
        retry_s = min(PATCH_EVERY_S * 2.0 ** min(known.failures, 10), LONGEST_RETRY_S)
        if isinstance(error, RefusedError):
            retry_s = LONGEST_RETRY_S
            metrics.POD_PATCHES.labels(outcome="refused").inc()
            self._refusals.note(error, consequence="pods do not show the roles of their workers")
        else:
            metrics.POD_PATCHES.labels(outcome="failed").inc()
            log.warning("pod_not_patched", pod=name, reason=str(error), retry_s=retry_s)
        known.due_at_s = _now() + retry_s

    def _forget(self, wanted: Iterable[str]) -> None:
        for name in self._known.keys() - set(wanted):
            known = self._known.pop(name)
            if known.pod is not None:
                self._events.forget(known.pod.uid)


def _says(pod: PodObject, badge: Badge) -> bool:
    return badge.labels.items() <= pod.labels.items() and badge.annotations.items() <= pod.annotations.items()


def _role(pod: PodObject) -> Role:
    """What a pod said before this replica led. One that says nothing serves: that is what it was started for."""
    return Role.TRAINING if pod.labels.get(ROLE_LABEL) == Role.TRAINING else Role.ROLLOUT


def _now() -> float:
    return asyncio.get_running_loop().time()
