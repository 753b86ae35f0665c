"""An in-process Kubernetes API server: resource versions, refusals, outages and lost responses."""

import asyncio
import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from tlt_coordinator.kube.api import (
    AwayError,
    ConfigMapObject,
    ConflictError,
    EventObject,
    KubeRefusedError,
    MissingError,
    PodObject,
)


@dataclass
class FakeServer:
    """The stored objects. Each process accesses them through its own `FakeKube`."""

    config_maps: dict[str, ConfigMapObject] = field(default_factory=dict)
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

    async def config_map(self, name: str) -> ConfigMapObject | None:
        await self._arrive("get", "configmaps", name)
        found = self.server.config_maps.get(name)
        await self._answer("get", "configmaps")
        return found

    async def create_config_map(self, name: str, data: Mapping[str, str]) -> ConfigMapObject:
        await self._arrive("create", "configmaps", name)
        if name in self.server.config_maps:
            raise ConflictError("create", "configmaps", f"{name} already exists")
        return await self._keep("create", name, ConfigMapObject(data=data, version=""))

    async def replace_config_map(self, name: str, found: ConfigMapObject) -> ConfigMapObject:
        await self._arrive("update", "configmaps", name)
        if name not in self.server.config_maps:
            raise MissingError("update", "configmaps", f"{name} not found")
        if found.version != self.server.config_maps[name].version:
            raise ConflictError("update", "configmaps", f"{name} has been modified")
        return await self._keep("update", name, found)

    async def pod(self, name: str) -> PodObject:
        await self._arrive("get", "pods", name)
        await self._answer("get", "pods")
        return self._pod("get", name)

    async def patch_pod(self, name: str, *, labels: Mapping[str, str], annotations: Mapping[str, str]) -> PodObject:
        await self._arrive("patch", "pods", name)
        pod = self._pod("patch", name)
        pod = self.server.pods[name] = replace(
            pod, labels={**pod.labels, **labels}, annotations={**pod.annotations, **annotations}
        )
        await self._answer("patch", "pods")
        return pod

    async def create_event(self, event: EventObject) -> None:
        await self._arrive("create", "events", event.name)
        if event.name in self.server.events:
            raise ConflictError("create", "events", f"{event.name} already exists")
        self.server.events[event.name] = event
        await self._answer("create", "events")

    async def repeat_event(self, event: EventObject) -> None:
        await self._arrive("patch", "events", event.name)
        if event.name not in self.server.events:
            raise MissingError("patch", "events", f"{event.name} not found")
        self.server.events[event.name] = event
        await self._answer("patch", "events")

    async def _arrive(self, verb: str, resource: str, name: str) -> None:
        self.calls.append((verb, resource, name))
        await asyncio.sleep(self.delay_s)
        if self.away:
            raise AwayError(verb, resource, "connection refused")
        if (verb, resource) in self.refused:
            raise KubeRefusedError(verb, resource, f"cannot {verb} {resource}")

    async def _answer(self, verb: str, resource: str) -> None:
        """What has happened at the server stays, also if the answer is lost."""
        if self.mute:
            raise AwayError(verb, resource, "the answer was lost")

    async def _keep(self, verb: str, name: str, found: ConfigMapObject) -> ConfigMapObject:
        kept = self.server.config_maps[name] = replace(found, version=str(next(self.server.versions)))
        await self._answer(verb, "configmaps")
        return kept

    def _pod(self, verb: str, name: str) -> PodObject:
        if name not in self.server.pods:
            raise MissingError(verb, "pods", f"{name} not found")
        return self.server.pods[name]
