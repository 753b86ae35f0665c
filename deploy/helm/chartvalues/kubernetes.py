"""Parts of Kubernetes objects that are passed through, with closed schemas."""

from typing import Literal

from pydantic import Field

from chartvalues.base import Labels, Name, Quantity, Values


class Resources(Values):
    """Resource requests and limits of a container."""

    requests: dict[str, Quantity] = {}
    """Requested resources."""
    limits: dict[str, Quantity] = {}
    """Resource limits."""


class Toleration(Values):
    """A toleration for a node taint."""

    key: str = ""
    """Taint key; empty with operator Exists matches all taints."""
    operator: Literal["Exists", "Equal"] = "Equal"
    """How key and value are matched."""
    value: str = ""
    """Taint value."""
    effect: Literal["", "NoSchedule", "PreferNoSchedule", "NoExecute"] = ""
    """Taint effect; empty matches all effects."""
    toleration_seconds: int | None = None
    """Seconds for which NoExecute is tolerated; null means forever."""


class Expression(Values):
    """A label requirement."""

    key: str
    """Label key."""
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]
    """How the label is compared."""
    values: list[str] = []
    """Values to compare with."""


class Selector(Values):
    """A label selector; empty selects all objects."""

    match_labels: Labels = {}
    """Labels that must all match."""
    match_expressions: list[Expression] = []
    """Expressions that must all hold."""


class NodeTerm(Values):
    """Requirements on a node, all of which must hold."""

    match_expressions: list[Expression] = []
    """Requirements on its labels."""
    match_fields: list[Expression] = []
    """Requirements on its fields, such as metadata.name."""


class NodeTerms(Values):
    """Node selector terms, at least one of which must hold."""

    node_selector_terms: list[NodeTerm]
    """The terms."""


class NodePreference(Values):
    """A preference for some nodes."""

    weight: int
    """1 to 100."""
    preference: NodeTerm
    """The preferred nodes."""


class NodeAffinity(Values):
    """Node affinity of a pod."""

    required_during_scheduling_ignored_during_execution: NodeTerms | None = None
    """Hard requirement."""
    preferred_during_scheduling_ignored_during_execution: list[NodePreference] = []
    """Soft preferences."""


class PodTerm(Values):
    """Pods to be scheduled close to, or away from."""

    topology_key: str
    """Node label that defines the topology domain."""
    label_selector: Selector = Selector()
    """Selects the pods."""
    namespaces: list[str] = []
    """Their namespaces; empty means the release's."""


class PodPreference(Values):
    """A soft preference of the same kind."""

    weight: int
    """1 to 100."""
    pod_affinity_term: PodTerm
    """Selects the pods."""


class PodAffinity(Values):
    """Pod affinity or anti-affinity."""

    required_during_scheduling_ignored_during_execution: list[PodTerm] = []
    """Hard requirements."""
    preferred_during_scheduling_ignored_during_execution: list[PodPreference] = []
    """Soft preferences."""


class Affinity(Values):
    """Scheduling affinity of pods."""

    node_affinity: NodeAffinity | None = None
    """Node affinity."""
    pod_affinity: PodAffinity | None = None
    """Pod affinity."""
    pod_anti_affinity: PodAffinity | None = None
    """Pod anti-affinity."""


class Spread(Values):
    """A topology spread constraint. The chart fills in the pod selector."""

    topology_key: str = "kubernetes.io/hostname"
    """Node label that defines the topology domain."""
    max_skew: int = 1
    """Maximum difference in the number of pods between domains."""
    when_unsatisfiable: Literal["ScheduleAnyway", "DoNotSchedule"] = "ScheduleAnyway"
    """Whether to schedule anyway or to leave the pod pending."""


class IpBlock(Values):
    """An IP range."""

    cidr: str
    """The range."""
    # `except` is a word of Python's
    excluding: list[str] = []
    """Excluded ranges."""


class Peer(Values):
    """A peer of a connection, as in a NetworkPolicy."""

    pod_selector: Selector | None = None
    """Selects pods by labels."""
    namespace_selector: Selector | None = None
    """Selects namespaces; null means the release's namespace, `{}` all namespaces."""
    ip_block: IpBlock | None = None
    """An IP range outside the cluster instead."""


class SecretKey(Values):
    """A key of a Secret."""

    name: Name
    """Name of the Secret."""
    key: str
    """Key in it."""


class Env(Values):
    """An environment variable."""

    name: str
    """Name of the variable."""
    value: str = ""
    """Literal value."""
    secret: SecretKey | None = None
    """Secret to take the value from instead."""


class Mount(Values):
    """A mount of a volume in a container."""

    name: Name
    """Name of the volume."""
    mount_path: str = Field(pattern="^/")
    """Path in the container."""
    sub_path: str = ""
    """File or directory within the volume; empty means its root."""
    read_only: bool = False
    """Whether the container may only read."""


class Parent(Values):
    """A Gateway (Gateway API) to attach a route to."""

    name: Name
    """Name of the Gateway."""
    namespace: Name = ""
    """Its namespace; empty means the release's."""
    section_name: str = ""
    """Listener of the Gateway; empty means all that match."""
