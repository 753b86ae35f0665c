"""All values of the chart."""

from pydantic import Field

from chartvalues.base import Labels, Values
from chartvalues.platform import Auth, Images, Monitoring, NetworkPolicy, Tls
from chartvalues.services import Cache, Coordinator, Gateway, Redis, Test, Tuner
from chartvalues.worker import Drafters, Model, Worker


class Chart(Values):
    """TLT on Kubernetes."""

    cluster_domain: str = "cluster.local"
    """DNS domain of the cluster."""
    labels: Labels = {}
    """More labels of every object."""
    image: Images = Images()
    """The suite's two images."""
    model: Model = Model()
    """The policy's first checkpoint."""
    drafters: Drafters = Drafters()
    """Where spot trainers publish drafters and keep checkpoints."""
    worker: Worker = Worker()
    """Engines, with a spot trainer beside each, placed by KubeRay."""
    gateway: Gateway = Gateway()
    """The public rollout endpoint."""
    coordinator: Coordinator = Coordinator()
    """Lends idle workers to training."""
    cache: Cache = Cache()
    """Takes hidden states in, keeps them in Redis, hands them to trainers."""
    tuner: Tuner = Tuner()
    """Pools what engines learn about speculation."""
    redis: Redis = Redis()
    """Where the cache keeps hidden states."""
    tls: Tls = Tls()
    """Encryption, and who is who."""
    auth: Auth = Auth()
    """Tokens of trainers and operators."""
    network_policy: NetworkPolicy = NetworkPolicy()
    """Who talks to whom."""
    monitoring: Monitoring = Monitoring()
    """Prometheus and Grafana."""
    traces: str = Field("", pattern=r"^$|^https?://(\[[0-9A-Fa-f:.]+\]|[^/\s:\[\]]+):\d{1,5}$")
    """http(s)://host:port of an OpenTelemetry collector that takes OTLP by gRPC; empty: no traces. With network_policy,
    name it in network_policy.traces too."""
    test: Test = Test()
    """The pod of `helm test`."""
