"""What all pods can be told."""

from chartvalues.base import Labels, Name, Values
from chartvalues.kubernetes import Affinity, Env, Resources, Spread, Toleration


class Pods(Values):
    """Placement and size of the pods of a component."""

    resources: Resources = Resources()
    """What a container asks for and may use."""
    node_selector: Labels = {}
    """Labels a node must have."""
    tolerations: list[Toleration] = []
    """Taints that do not keep it away."""
    affinity: Affinity | None = None
    """Where it wants to be."""
    topology_spread: list[Spread] = [Spread()]
    """How its pods are spread; by default over nodes, as far as possible."""
    priority_class_name: Name = ""
    """PriorityClass; empty: the cluster's default."""
    pod_labels: Labels = {}
    """More labels."""
    pod_annotations: Labels = {}
    """More annotations."""
    env: list[Env] = []
    """More variables of the environment."""


def small(cpu: str, memory: str) -> Resources:
    """Ask for that much, with the memory as limit."""
    return Resources(requests={"cpu": cpu, "memory": memory}, limits={"memory": memory})
