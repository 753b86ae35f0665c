"""Pieces of Kubernetes objects that values pass through, closed like everything else."""

from typing import Literal

from chartvalues.base import Labels, Name, Quantity, Values


class Resources(Values):
    """What a container asks for and may use."""

    requests: dict[str, Quantity] = {}
    """Reserved for it."""
    limits: dict[str, Quantity] = {}
    """Most it gets."""


class Toleration(Values):
    """A taint that does not keep the pod away."""

    key: str = ""
    """Of the taint; empty with operator Exists: all."""
    operator: Literal["Exists", "Equal"] = "Equal"
    """How the value is compared."""
    value: str = ""
    """Of the taint."""
    effect: Literal["", "NoSchedule", "PreferNoSchedule", "NoExecute"] = ""
    """Of the taint; empty: all."""
    toleration_seconds: int | None = None
    """How long NoExecute is tolerated."""


class Expression(Values):
    """A requirement on a label."""

    key: str
    """Label."""
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]
    """How it is compared."""
    values: list[str] = []
    """With what."""


class Selector(Values):
    """Objects by their labels. Empty: all."""

    match_labels: Labels = {}
    """All of these."""
    match_expressions: list[Expression] = []
    """And all of these."""


class NodeTerm(Values):
    """Requirements on one node, all of which hold."""

    match_expressions: list[Expression] = []
    """On its labels."""
    match_fields: list[Expression] = []
    """On its fields, such as metadata.name."""


class NodeTerms(Values):
    """Nodes by terms, one of which holds."""

    node_selector_terms: list[NodeTerm]
    """The terms."""


class NodePreference(Values):
    """Nodes that are better than others."""

    weight: int
    """1 to 100."""
    preference: NodeTerm
    """Which nodes."""


class NodeAffinity(Values):
    """Nodes a pod wants."""

    required_during_scheduling_ignored_during_execution: NodeTerms | None = None
    """Only these."""
    preferred_during_scheduling_ignored_during_execution: list[NodePreference] = []
    """Rather these."""


class PodTerm(Values):
    """Pods one wants to be near to, or far from."""

    topology_key: str
    """Label of nodes that says what near means."""
    label_selector: Selector = Selector()
    """Which pods."""
    namespaces: list[str] = []
    """Where they are; empty: here."""


class PodPreference(Values):
    """The same, as a wish."""

    weight: int
    """1 to 100."""
    pod_affinity_term: PodTerm
    """Which pods."""


class PodAffinity(Values):
    """Pods one wants to be near to, or far from."""

    required_during_scheduling_ignored_during_execution: list[PodTerm] = []
    """Always."""
    preferred_during_scheduling_ignored_during_execution: list[PodPreference] = []
    """If possible."""


class Affinity(Values):
    """Where pods want to be."""

    node_affinity: NodeAffinity | None = None
    """Which nodes."""
    pod_affinity: PodAffinity | None = None
    """Near which pods."""
    pod_anti_affinity: PodAffinity | None = None
    """Far from which pods."""


class Spread(Values):
    """How pods of a component are spread. The chart fills in which pods."""

    topology_key: str = "kubernetes.io/hostname"
    """Label of nodes they are spread over."""
    max_skew: int = 1
    """Largest difference in their number."""
    when_unsatisfiable: Literal["ScheduleAnyway", "DoNotSchedule"] = "ScheduleAnyway"
    """Whether a pod rather waits."""


class IpBlock(Values):
    """A range of addresses."""

    cidr: str
    """The range."""
    # `except` is a word of Python's
    excluding: list[str] = []
    """Less these ranges."""


class Peer(Values):
    """The other end of a connection, as in a NetworkPolicy."""

    pod_selector: Selector | None = None
    """Pods by labels."""
    namespace_selector: Selector | None = None
    """In which namespaces; null: this one. `{}`: all."""
    ip_block: IpBlock | None = None
    """Or addresses outside of the cluster."""


class SecretKey(Values):
    """A key of a secret."""

    name: Name
    """Of the secret."""
    key: str
    """In it."""


class Env(Values):
    """A variable of the environment."""

    name: str
    """Of the variable."""
    value: str = ""
    """Plain text."""
    secret: SecretKey | None = None
    """Where to take it from instead."""


class Parent(Values):
    """A Gateway of the Gateway API that takes a route."""

    name: Name
    """Of the Gateway."""
    namespace: Name = ""
    """Where it is; empty: here."""
    section_name: str = ""
    """Which of its listeners; empty: all that fit."""
