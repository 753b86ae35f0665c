"""Settings common to the pods of all components."""

from chartvalues.base import Labels, Name, Values
from chartvalues.kubernetes import Affinity, Env, Resources, Spread, Toleration


class Pods(Values):
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
    env: list[Env] = []
    """Additional environment variables."""


def small(cpu: str, memory: str) -> Resources:
    """Return these requests, with the memory as limit."""
    return Resources(requests={"cpu": cpu, "memory": memory}, limits={"memory": memory})
