"""The root of the chart's values."""

from pydantic import Field

from chartvalues.base import Labels, Values
from chartvalues.platform import Auth, Images, Monitoring, NetworkPolicy, Tls
from chartvalues.pods import Everywhere, Users
from chartvalues.services import Cache, Coordinator, Gateway, Redis, Test, Tuner
from chartvalues.worker import Drafters, Model, Worker


class Chart(Values):
    """TLT on Kubernetes."""

    everywhere: Everywhere = Field(Everywhere(), alias="global")
    """Settings of all pods, to which those of each component are added."""
    security_context: Users = Users()
    """Users that pods run as."""
    cluster_domain: str = "cluster.local"
    """DNS domain of the cluster."""
    labels: Labels = {}
    """Additional labels for every object."""
    image: Images = Images()
    """The suite's two images."""
    model: Model = Model()
    """Initial checkpoint of the policy."""
    drafters: Drafters = Drafters()
    """Storage for drafters and trainer checkpoints."""
    worker: Worker = Worker()
    """Rollout workers: SGLang engines with spot trainers, scheduled by KubeRay."""
    gateway: Gateway = Gateway()
    """The public rollout endpoint."""
    coordinator: Coordinator = Coordinator()
    """Lends idle workers to drafter training."""
    cache: Cache = Cache()
    """Stores hidden states in Redis and serves them to trainers."""
    tuner: Tuner = Tuner()
    """Pools what the engines learn about speculation."""
    redis: Redis = Redis()
    """Storage for hidden states and for what the engines learned."""
    tls: Tls = Tls()
    """TLS between components."""
    auth: Auth = Auth()
    """Tokens for trainers and operators."""
    network_policy: NetworkPolicy = NetworkPolicy()
    """Permitted connections."""
    monitoring: Monitoring = Monitoring()
    """Prometheus and Grafana."""
    traces: str = Field("", pattern=r"^$|^https?://(\[[0-9A-Fa-f:.]+\]|[^/\s:\[\]]+):\d{1,5}$")
    """http(s)://host:port of an OpenTelemetry collector that accepts OTLP over gRPC; empty disables tracing. With
    network policies enabled, add the collector to networkPolicy.traces as well."""
    test: Test = Test()
    """The pod of `helm test`."""
