"""An in-process Kubernetes API server: resource versions, refusals, outages and lost responses."""

import asyncio
import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from tlt_coordinator.kube.api import (
    AwayError,
    ConflictError,
    EventObject,
    KubeRefusedError,
    LeaseObject,
    MissingError,
    PodObject,
)


@dataclass
class FakeServer:
    """The stored objects. Each replica accesses them through its own `FakeKube`."""

    leases: dict[str, LeaseObject] = field(default_factory=dict)
    pods: dict[str, PodObject] = field(default_factory=dict)
    events: dict[str, EventObject] = field(default_factory=dict)
    versions: "itertools.count[int]" = field(default_factory=lambda: itertools.count(1))

    def add_pod(self, name: str, **labels: str) -> None:
        """Create a pod, or replace the one of that name. Underscores in label names stand for slashes."""
        named = {key.replace("_", "/"): value for key, value in labels.items()}
        self.pods[name] = PodObject(name=name, uid=f"uid-{next(self.versions)}", labels=named, annotations={})

    def label(self, pod: str, label: str) -> str | None:
        return self.pods[pod].labels.get(label)


@dataclass
class FakeKube:
    """Implements `Kube`."""

    server: FakeServer = field(default_factory=FakeServer)
    away: bool = False
    """Whether requests fail to reach the server."""
    mute: bool = False
    """Whether responses are lost."""
    refused: set[tuple[str, str]] = field(default_factory=set)
    """Refused pairs of verb and resource."""
    delay_s: float = 0.0
    """Seconds until a request arrives."""
    calls: list[tuple[str, str, str]] = field(default_factory=list)
    """Verb, resource and name of all attempts."""

    def count(self, verb: str, resource: str) -> int:
        return sum(call[:2] == (verb, resource) for call in self.calls)

    async def lease(self, name: str) -> LeaseObject | None:
        await self._arrive("get", "leases", name)
        self._answer("get", "leases")
        return self.server.leases.get(name)

    async def create_lease(self, name: str, lease: LeaseObject) -> LeaseObject:
        await self._arrive("create", "leases", name)
        if name in self.server.leases:
            raise ConflictError("create", "leases", f"{name} already exists")
        return self._keep("create", name, lease)

    async def replace_lease(self, name: str, lease: LeaseObject) -> LeaseObject:
        await self._arrive("update", "leases", name)
        if name not in self.server.leases:
            raise MissingError("update", "leases", f"{name} not found")
        if lease.version != self.server.leases[name].version:
            raise ConflictError("update", "leases", f"{name} has been modified")
        return self._keep("update", name, lease)

    async def pod(self, name: str) -> PodObject:
        await self._arrive("get", "pods", name)
        self._answer("get", "pods")
        return self._pod("get", name)

    async def pods(self, labels: Mapping[str, str]) -> tuple[PodObject, ...]:
        await self._arrive("list", "pods", "")
        self._answer("list", "pods")
        return tuple(pod for pod in self.server.pods.values() if labels.items() <= pod.labels.items())

    async def patch_pod(
        self, name: str, *, labels: Mapping[str, str | None], annotations: Mapping[str, str] | None = None
    ) -> PodObject:
        await self._arrive("patch", "pods", name)
        pod = self._pod("patch", name)
        merged = {**pod.labels, **labels}
        pod = self.server.pods[name] = replace(
            pod,
            labels={key: value for key, value in merged.items() if value is not None},
            annotations={**pod.annotations, **(annotations or {})},
        )
        self._answer("patch", "pods")
        return pod

    async def create_event(self, event: EventObject) -> None:
        await self._arrive("create", "events", event.name)
        if event.name in self.server.events:
            raise ConflictError("create", "events", f"{event.name} already exists")
        self.server.events[event.name] = event
        self._answer("create", "events")

    async def repeat_event(self, event: EventObject) -> None:
        await self._arrive("patch", "events", event.name)
        if event.name not in self.server.events:
            raise MissingError("patch", "events", f"{event.name} not found")
        self.server.events[event.name] = event
        self._answer("patch", "events")

    async def _arrive(self, verb: str, resource: str, name: str) -> None:
        self.calls.append((verb, resource, name))
        await asyncio.sleep(self.delay_s)
        if self.away:
            raise AwayError(verb, resource, "connection refused")
        if (verb, resource) in self.refused:
            raise KubeRefusedError(verb, resource, f"cannot {verb} {resource}")

    def _answer(self, verb: str, resource: str) -> None:
        if self.mute:
            raise AwayError(verb, resource, "the answer was lost")

    def _keep(self, verb: str, name: str, lease: LeaseObject) -> LeaseObject:
        kept = self.server.leases[name] = replace(lease, version=str(next(self.server.versions)))
        self._answer(verb, "leases")
        return kept

    def _pod(self, verb: str, name: str) -> PodObject:
        if name not in self.server.pods:
            raise MissingError(verb, "pods", f"{name} not found")
        return self.server.pods[name]
