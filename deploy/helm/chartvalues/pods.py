"""Settings common to the pods of all components."""

from typing import Annotated

from pydantic import ConfigDict, Field

from chartvalues.base import Labels, Name, Values
from chartvalues.kubernetes import Affinity, Env, Mount, Resources, Spread, Toleration
from chartvalues.volumes import Volume

Id = Annotated[int, Field(ge=1, le=2**31 - 1)]


class Additions(Values):
    """What is added to containers."""

    env: list[Env] = []
    """Additional environment variables. Of those with one name, that of the innermost block counts."""
    volume_mounts: list[Mount] = []
    """Additional mounts, of volumes in `volumes`."""


class Container(Additions):
    """An init container, which has what is added to all containers of its pod, too."""

    resources: Resources
    """Resource requests and limits."""


class Everywhere(Additions):
    """
    Settings of all pods, to which those of a component are added. Values of a parent chart are ignored.

    A component's `nodeSelector`, labels and annotations are merged with these and take precedence, tolerations and
    volumes are added, and its affinity replaces this one.
    """

    model_config = ConfigDict(extra="allow")

    node_selector: Labels = {"kubernetes.io/arch": "amd64"}
    """Required node labels; by default the architecture of the images."""
    tolerations: list[Toleration] = []
    """Tolerations for node taints."""
    affinity: Affinity | None = None
    """Scheduling affinity of the components that have none of their own."""
    pod_labels: Labels = {}
    """Additional pod labels."""
    pod_annotations: Labels = {}
    """Additional pod annotations."""
    volumes: list[Volume] = []
    """Additional volumes, such as a ConfigMap with a private CA."""


class Users(Values):
    """Users that pods run as; null where the platform assigns them, as OpenShift does."""

    run_as_user: Id | None = 65532
    """User id; null: the cluster's choice. Pods never run as root."""
    run_as_group: Id | None = 65532
    """Group id; null: the cluster's choice."""
    fs_group: Id | None = 65532
    """Group of volumes; null: the cluster's choice."""


class Pods(Additions):
    """Scheduling and size of a component's pods."""

    resources: Resources = Resources()
    """Resource requests and limits."""
    node_selector: Labels = {}
    """Required node labels."""
    tolerations: list[Toleration] = []
    """Tolerations for node taints."""
    affinity: Affinity | None = None
    """Scheduling affinity."""
    topology_spread: list[Spread] = [Spread()]
    """Topology spread constraints; by default pods spread over nodes where possible."""
    priority_class_name: Name = ""
    """PriorityClass; empty means the cluster's default."""
    pod_labels: Labels = {}
    """Additional pod labels."""
    pod_annotations: Labels = {}
    """Additional pod annotations."""
    volumes: list[Volume] = []
    """Additional volumes."""


def small(cpu: str, memory: str) -> Resources:
    """Return these requests, with the memory as limit."""
    return Resources(requests={"cpu": cpu, "memory": memory}, limits={"memory": memory})
