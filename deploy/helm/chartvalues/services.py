"""Values of the services that need no GPU."""

from typing import Literal

from pydantic import Field

from chartvalues.base import Auto, Count, Labels, Name, Quantity, Replicas, Seconds, ServiceConfig, Values, settings_of
from chartvalues.kubernetes import Parent, Resources, SecretKey
from chartvalues.pods import Pods, small


class Budget(Values):
    """A PodDisruptionBudget."""

    enabled: bool = True
    """Create a PodDisruptionBudget."""
    max_unavailable: Replicas = 1
    """Maximum number of unavailable pods during a node drain."""


class CustomMetric(Values):
    """A pod metric from a metrics adapter."""

    name: str
    """Name of the metric in the adapter."""
    average_value: Quantity
    """Target average per pod."""


class Autoscaling(Values):
    """A HorizontalPodAutoscaler."""

    enabled: bool = False
    """Create one; it then controls the number of replicas."""
    min_replicas: Replicas = 2
    """Minimum number of pods."""
    max_replicas: Replicas = 6
    """Maximum number of pods."""
    cpu_percent: Count = 70
    """CPU target in percent of the request; 0 ignores CPU."""
    metrics: list[CustomMetric] = []
    """Additional pod metrics to scale by."""


class Listener(Values):
    """The gateway's Service."""

    type: Literal["ClusterIP", "NodePort", "LoadBalancer"] = "ClusterIP"
    """Type of Service."""
    annotations: Labels = {}
    """Annotations, for example for the load balancer."""


class Ingress(Values):
    """An Ingress for gRPC (with annotations for ingress-nginx)."""

    enabled: bool = False
    """Create an Ingress."""
    class_name: Name = ""
    """IngressClass; empty means the cluster's default."""
    hosts: list[str] = []
    """Host names; also added to the gateway's certificate."""
    tls_secret: Name = ""
    """Secret with the certificate presented to trainers; required, since ingress-nginx serves gRPC over TLS only."""
    annotations: Labels = {}
    """Additional annotations."""


class PageIngress(Values):
    """An Ingress for the coordinator's page (with annotations for ingress-nginx)."""

    enabled: bool = False
    """Create an Ingress."""
    class_name: Name = ""
    """IngressClass; empty means the cluster's default."""
    hosts: list[str] = []
    """Host names; also added to the coordinator's certificate."""
    tls_secret: Name = ""
    """Secret with the certificate presented to browsers; required, since they send a token."""
    annotations: Labels = {}
    """Additional annotations."""


class GrpcRoute(Values):
    """A GRPCRoute of the Gateway API."""

    enabled: bool = False
    """Create a GRPCRoute."""
    parent_refs: list[Parent] = []
    """Gateways to attach the route to."""
    hostnames: list[str] = []
    """Host names; also added to the gateway's certificate."""
    ca_config_map: Name = ""
    """ConfigMap with key ca.crt that the Gateway verifies the backend's certificate with (BackendTLSPolicy). Empty uses
    the chart's CA with tls.mode generated, and no BackendTLSPolicy otherwise."""


class Spool(Values):
    """Storage for weights that trainers stream, kept for workers that join later."""

    size: Quantity = "64Gi"
    """Size on the node's disk; must hold two copies of the weights."""
    claim: Name = ""
    """A ReadWriteMany PersistentVolumeClaim to use instead; workers then read the weights from it rather than receiving
    them over gRPC."""


class Http(Values):
    """The rollout endpoint over HTTP, for trainers with a client of SGLang's or OpenAI's protocol (docs/http.md)."""

    enabled: bool = False
    """Serve HTTP on port 7703 of the gateway's Service, with the same tokens, TLS and network policy as gRPC."""
    tokenizer: Literal["model", "none"] = "model"
    """`model`: read the tokenizer from the model's directory, which gateway pods then mount too; needs model.source
    `pvc` or `hostPath`. `none`: prompts are token ids, and responses have no text."""


class Gateway(Pods):
    """The public rollout endpoint."""

    replicas: Replicas = 1
    """Number of pods. A worker that joins late receives its weights from the gateway that published them."""
    config: ServiceConfig = Field(default={}, json_schema_extra=settings_of("gateway"))
    """Configuration; `tlt config explain gateway` lists the keys. Those the chart fills in are refused."""
    drain_seconds: Seconds = 120
    """Seconds for running requests to finish when a pod is terminated."""
    spool: Spool = Spool()
    """Storage for streamed weights."""
    service: Listener = Listener()
    """Service."""
    ingress: Ingress = Ingress()
    """Ingress."""
    grpc_route: GrpcRoute = GrpcRoute()
    """Gateway API route."""
    http: Http = Http()
    """HTTP."""
    autoscaling: Autoscaling = Autoscaling()
    """Autoscaling."""
    disruption_budget: Budget = Budget()
    """PodDisruptionBudget."""
    resources: Resources = small("1", "2Gi")
    """Resource requests and limits."""


class Coordinator(Pods):
    """Lends idle workers to drafter training. A single pod."""

    config: ServiceConfig = Field(default={}, json_schema_extra=settings_of("coordinator"))
    """Configuration; `tlt config explain coordinator` lists the keys. Those the chart fills in are refused."""
    ingress: PageIngress = PageIngress()
    """Ingress for the page that shows the fleet."""
    admission_policy: Auto = "auto"
    """Create a ValidatingAdmissionPolicy, with which the coordinator can change only the labels and annotations of
    tlt.dev, and only of this release's pods; RBAC permits it to patch every pod of the namespace. auto creates it if
    the cluster has the kind (Kubernetes 1.30). Installing it requires cluster-wide permissions."""
    resources: Resources = Resources(requests={"cpu": "250m", "memory": "512Mi"}, limits={"memory": "1Gi"})
    """Resource requests and limits."""


class Cache(Pods):
    """Stores hidden states in Redis and serves them to trainers."""

    replicas: Replicas = 1
    """Number of pods; they share Redis and its byte budget."""
    config: ServiceConfig = Field(default={}, json_schema_extra=settings_of("cache"))
    """Configuration; `tlt config explain cache` lists the keys. Those the chart fills in are refused."""
    disruption_budget: Budget = Budget()
    """PodDisruptionBudget."""
    resources: Resources = small("1", "2Gi")
    """Resource requests and limits."""


class Tuner(Pods):
    """Pools what the engines learn about speculation. A single pod."""

    config: ServiceConfig = Field(default={}, json_schema_extra=settings_of("tuner"))
    """Configuration; `tlt config explain tuner` lists the keys. Those the chart fills in are refused."""
    resources: Resources = small("100m", "256Mi")
    """Resource requests and limits."""


class RedisImage(Values):
    """Image of the Redis that the chart deploys."""

    repository: str = "docker.io/library/redis"
    """Full repository; `image.registry` is not prepended."""
    tag: str = "8.2.1"
    """Tag."""
    digest: str = ""
    """sha256:...; takes precedence over the tag."""


class Redis(Pods):
    """Storage for hidden states and for what the engines learned. All of it can be rebuilt."""

    mode: Literal["standalone", "external"] = "standalone"
    """standalone: a single Redis deployed by the chart, for evaluation and single nodes. external: your own."""
    existing_secret: SecretKey | None = None
    """external: Secret and key with the URL redis[s]://[:PASSWORD@]HOST:PORT[/DB]."""
    tls: bool = True
    """standalone: encrypt connections, unless tls.mode is off. Redis reads its certificate at start: restart the
    StatefulSet after a renewal. Set to false for an image whose Redis was built without TLS."""
    image: RedisImage = RedisImage()
    """standalone: image."""
    command: list[str] = ["redis-server"]
    """standalone: command, to which the path of the configuration is appended."""
    probe: list[str] = ["redis-cli"]
    """standalone: Command of redis-cli (6.2 or later) with which probes check that Redis answers. Empty: probes only
    check that the port is open, for an image without redis-cli."""
    resources: Resources = small("500m", "2Gi")
    """Resource requests and limits. Memory: 1.5 to 2 times `cache.config.budget_bytes`, plus headroom."""


class Test(Pods):
    """The pod of `helm test`."""

    patience_seconds: Seconds = 600
    """Seconds to wait for the first rollout; engines may still be loading the model."""
    resources: Resources = small("100m", "256Mi")
    """Resource requests and limits."""
