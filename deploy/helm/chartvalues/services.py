"""Values of the services that need no device."""

from typing import Literal

from pydantic import Field

from chartvalues.base import Count, Labels, Name, Quantity, Replicas, Seconds, ServiceConfig, Values, settings_of
from chartvalues.kubernetes import Parent, Resources, SecretKey
from chartvalues.pods import Pods, small


class Budget(Values):
    """How many pods may be away at a time when nodes are drained."""

    enabled: bool = True
    """Whether there is a PodDisruptionBudget."""
    max_unavailable: Replicas = 1
    """Pods that may be away."""


class CustomMetric(Values):
    """A metric of the pods that an adapter serves."""

    name: str
    """As the adapter names it."""
    average_value: Quantity
    """Aim of one pod."""


class Autoscaling(Values):
    """A HorizontalPodAutoscaler."""

    enabled: bool = False
    """Whether there is one; it then owns the number of replicas."""
    min_replicas: Replicas = 2
    """Least pods."""
    max_replicas: Replicas = 6
    """Most pods."""
    cpu_percent: Count = 70
    """Aim for CPU, in percent of what is requested; 0: CPU does not count."""
    metrics: list[CustomMetric] = []
    """Metrics of the pods to scale by as well."""


class Listener(Values):
    """The gateway's Service."""

    type: Literal["ClusterIP", "NodePort", "LoadBalancer"] = "ClusterIP"
    """Kind of Service."""
    annotations: Labels = {}
    """For the load balancer."""


class Ingress(Values):
    """An Ingress with gRPC behind it (annotations are those of ingress-nginx)."""

    enabled: bool = False
    """Whether there is one."""
    class_name: Name = ""
    """IngressClass; empty: the cluster's default."""
    hosts: list[str] = []
    """Host names; they get into the gateway's certificate."""
    tls_secret: Name = ""
    """Secret with the certificate trainers see; gRPC through ingress-nginx needs one."""
    annotations: Labels = {}
    """More annotations."""


class GrpcRoute(Values):
    """A GRPCRoute of the Gateway API."""

    enabled: bool = False
    """Whether there is one."""
    parent_refs: list[Parent] = []
    """Gateways that take it."""
    hostnames: list[str] = []
    """Host names; they get into the gateway's certificate."""
    ca_config_map: Name = ""
    """ConfigMap with key ca.crt by which the Gateway checks our certificate (BackendTLSPolicy). Empty: the chart's own
    with tls.mode generated, and no BackendTLSPolicy otherwise."""


class Spool(Values):
    """Where weights that trainers stream are kept for workers that join later."""

    size: Quantity = "64Gi"
    """Room for two copies of the weights, on the node's disk."""
    claim: Name = ""
    """A ReadWriteMany PersistentVolumeClaim instead: workers read weights from it and are not sent them."""


class Gateway(Pods):
    """The public rollout endpoint."""

    replicas: Replicas = 1
    """Pods. A worker that joins late gets its weights from the one that published them."""
    config: ServiceConfig = Field(default={}, json_schema_extra=settings_of("gateway"))
    """Keys of `tlt config explain gateway`, without those the chart fills in."""
    drain_seconds: Seconds = 120
    """How long running requests may go on when a pod ends."""
    spool: Spool = Spool()
    """Where streamed weights are kept."""
    service: Listener = Listener()
    """Its Service."""
    ingress: Ingress = Ingress()
    """Ingress."""
    grpc_route: GrpcRoute = GrpcRoute()
    """Gateway API."""
    autoscaling: Autoscaling = Autoscaling()
    """More gateways under load."""
    disruption_budget: Budget = Budget()
    """While nodes are drained."""
    resources: Resources = small("1", "2Gi")
    """What a container asks for and may use."""


class Coordinator(Pods):
    """Lends idle workers to training. One replica leads, the others wait."""

    replicas: Replicas = 2
    """Pods, one of which leads."""
    config: ServiceConfig = Field(default={}, json_schema_extra=settings_of("coordinator"))
    """Keys of `tlt config explain coordinator`, without those the chart fills in."""
    disruption_budget: Budget = Budget()
    """While nodes are drained."""
    resources: Resources = small("250m", "512Mi")
    """What a container asks for and may use."""


class Cache(Pods):
    """Takes hidden states in, keeps them in Redis, hands them to trainers."""

    replicas: Replicas = 1
    """Pods; they share the Redis and its budget."""
    config: ServiceConfig = Field(default={}, json_schema_extra=settings_of("cache"))
    """Keys of `tlt config explain cache`, without those the chart fills in."""
    disruption_budget: Budget = Budget()
    """While nodes are drained."""
    resources: Resources = small("1", "2Gi")
    """What a container asks for and may use."""


class Tuner(Pods):
    """Pools what engines learn about speculation. One pod."""

    config: ServiceConfig = Field(default={}, json_schema_extra=settings_of("tuner"))
    """Keys of `tlt config explain tuner`, without those the chart fills in."""
    resources: Resources = small("100m", "256Mi")
    """What a container asks for and may use."""


class RedisImage(Values):
    """Image of the Redis the chart starts."""

    repository: str = "docker.io/library/redis"
    """Where it is; `image.registry` is not put before it."""
    tag: str = "8.2.1"
    """Version."""
    digest: str = ""
    """sha256:...; goes before the tag."""


class Redis(Pods):
    """Where the cache keeps hidden states, and the tuner what engines learned. Nothing is lost with them for good."""

    mode: Literal["standalone", "external"] = "standalone"
    """standalone: one Redis of the chart's own, for a first try and for one node. external: yours."""
    existing_secret: SecretKey | None = None
    """external: secret and key that hold the URL, redis[s]://[:PASSWORD@]HOST:PORT[/DB]."""
    image: RedisImage = RedisImage()
    """standalone: its image."""
    command: list[str] = ["redis-server"]
    """standalone: the program, which is given the path of its configuration."""
    resources: Resources = small("500m", "2Gi")
    """What it asks for and may use; 1.5 to 2 times `cache.config.budget_bytes` and a little."""


class Test(Pods):
    """The pod of `helm test`."""

    patience_seconds: Seconds = 600
    """How long it waits for the first rollout; engines may still be loading the model."""
    resources: Resources = small("100m", "256Mi")
    """What a container asks for and may use."""
