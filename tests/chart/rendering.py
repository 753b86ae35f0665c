"""Rendering of the chart with Helm."""

import copy
import re
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from tests.cluster.kube.binaries import binary

CHART = Path(__file__).parents[2] / "deploy/helm/tlt"
RELEASE = "rl"
NAMESPACE = "rollouts"
APIS = (
    "ray.io/v1/RayService",
    "admissionregistration.k8s.io/v1/ValidatingAdmissionPolicy",
    "cert-manager.io/v1",
    "gateway.networking.k8s.io/v1/BackendTLSPolicy",
    "gateway.networking.k8s.io/v1/GRPCRoute",
    "monitoring.coreos.com/v1/PodMonitor",
    "monitoring.coreos.com/v1/PrometheusRule",
)
VALUE_SETS = tuple(sorted(path.stem for path in (CHART / "ci").glob("*.yaml")))
REQUIRED = {"model": {"pvc": {"claim": "model"}}}
"""Values without defaults."""

Object = dict[str, Any]


class RenderError(Exception):
    """Helm failed; the message is what a user sees."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """A pod or pod template of the chart."""

    component: str
    metadata: Object
    spec: Object

    @property
    def containers(self) -> list[Object]:
        """All containers, init containers included."""
        return [*self.spec.get("initContainers", []), *self.spec["containers"]]

    @property
    def main(self) -> Object:
        """The serving container."""
        container: Object = self.spec["containers"][0]
        return container


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendered:
    """Objects of one rendering, and the template each comes from."""

    objects: tuple[Object, ...]
    sources: tuple[str, ...]

    def of(self, kind: str) -> dict[str, Object]:
        """Return the objects of a kind, by name without the release prefix."""
        return {
            item["metadata"]["name"].removeprefix(f"{RELEASE}-tlt-"): item
            for item in self.objects
            if item["kind"] == kind
        }

    def one(self, kind: str, name: str = "") -> Object:
        """Return the object of this kind and name; without a name, the first of its kind."""
        found = self.of(kind)
        return found[name] if name else next(iter(found.values()))

    @property
    def pods(self) -> dict[str, Pod]:
        """Pods by component."""
        return {pod.component: pod for pod in _pods(self.objects)}

    def config(self, component: str) -> Object:
        """Return a service's configuration file."""
        config: Object = yaml.safe_load(self.one("ConfigMap", component)["data"]["config.yaml"])
        return config

    @property
    def serve(self) -> Object:
        """Configuration of Ray Serve."""
        config: Object = yaml.safe_load(self.one("RayService")["spec"]["serveConfigV2"])
        return config


def _pods(objects: Sequence[Object]) -> Iterator[Pod]:
    for item in objects:
        if item["kind"] in {"Deployment", "StatefulSet"}:
            templates = [item["spec"]["template"]]
        elif item["kind"] == "RayService":
            cluster = item["spec"]["rayClusterConfig"]
            templates = [group["template"] for group in (cluster["headGroupSpec"], *cluster["workerGroupSpecs"])]
        else:
            templates = [item] if item["kind"] == "Pod" else []
        for template in templates:
            component = template["metadata"]["labels"]["app.kubernetes.io/component"]
            yield Pod(component=component, metadata=template["metadata"], spec=template["spec"])


def render(
    values: Mapping[str, Any] | str | None = None, *, apis: Sequence[str] = APIS, release: str = RELEASE
) -> Rendered:
    """
    Render with these values on top of the required ones, or with a named value set.

    Raises:
        RenderError: Helm failed.
    """
    if isinstance(values, str):
        text = (CHART / "ci" / f"{values}.yaml").read_text()
    else:
        text = yaml.safe_dump(merged(REQUIRED, values or {}))
    return _rendered(text, tuple(apis), release)


@cache
def _rendered(values: str, apis: tuple[str, ...], release: str) -> Rendered:
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        file.write(values)
        file.flush()
        command = [binary("helm"), "template", release, CHART, "--namespace", NAMESPACE, "--values", file.name]
        for api in apis:
            command += ["--api-versions", api]
        done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RenderError(done.stderr)
    sources = tuple(re.findall(r"^# Source: tlt/templates/(\S+)$", done.stdout, re.MULTILINE))
    return Rendered(objects=tuple(item for item in yaml.safe_load_all(done.stdout) if item), sources=sources)


def merged(lower: Mapping[str, Any], upper: Mapping[str, Any]) -> Object:
    """Merge values as Helm does: blocks by key, everything else from the upper one."""
    result = copy.deepcopy(dict(lower))
    for key, value in upper.items():
        old = result.get(key)
        result[key] = merged(old, value) if isinstance(old, dict) and isinstance(value, Mapping) else value
    return result
