"""Values of what lies around the services: images, certificates, tokens, network, monitoring."""

from typing import Literal

from pydantic import Field

from chartvalues.base import Auto, Labels, Name, Values
from chartvalues.kubernetes import IpBlock, Peer, Selector


class Image(Values):
    """One image."""

    repository: str = "tlt"
    """Name in the registry."""
    tag: str = ""
    """Version; empty: the chart's appVersion. Never latest."""
    digest: str = Field("", pattern="^$|^sha256:[0-9a-f]{64}$")
    """sha256:...; goes before the tag."""


class EngineImage(Image):
    """The image with SGLang, torch and Ray."""

    repository: str = "tlt-engine"
    """Name in the registry."""


class PullSecret(Values):
    """A secret of type kubernetes.io/dockerconfigjson."""

    name: Name
    """Its name."""


class Images(Values):
    """The suite's two images."""

    registry: str = ""
    """Put before the repositories, such as registry.example.org/rl."""
    pull_policy: Literal["IfNotPresent", "Always", "Never"] = "IfNotPresent"
    """When nodes pull."""
    pull_secrets: list[PullSecret] = []
    """For a private registry."""
    slim: Image = Image()
    """gateway, coordinator, cache, tuner."""
    engine: EngineImage = EngineImage()
    """Workers and Ray's head: with SGLang, torch and Ray."""


class TlsSecrets(Values):
    """Secrets with tls.crt, tls.key and ca.crt. A component C has the names C.tlt.internal and those of its Service."""

    gateway: Name = ""
    """Of the gateway."""
    coordinator: Name = ""
    """Of the coordinator."""
    cache: Name = ""
    """Of the cache."""
    tuner: Name = ""
    """Of the tuner."""
    worker: Name = ""
    """Of workers."""


class Issuer(Values):
    """A cert-manager issuer. It must be a CA of your own: ca.crt is what components trust."""

    name: Name = ""
    """Its name."""
    kind: Literal["Issuer", "ClusterIssuer"] = "Issuer"
    """Its kind."""
    group: str = "cert-manager.io"
    """Its API group."""


class CertManager(Values):
    """Certificates by cert-manager."""

    issuer: Issuer = Issuer()
    """Who signs."""
    duration: str = "2160h"
    """Life of a certificate."""
    renew_before: str = "720h"
    """How long before its end it is replaced; running services read the new one."""


class Generated(Values):
    """Certificates made by the chart."""

    days: int = Field(3650, ge=1)
    """Life of the CA and of certificates; `helm upgrade` replaces certificates in the last third of it."""


class Tls(Values):
    """Encryption, and who is who."""

    mode: Literal["generated", "secret", "certManager", "off", False] = "generated"
    """generated: a CA of the chart's own, kept over upgrades. secret: yours. certManager: Certificate objects. off: no
    encryption (YAML reads it as false, which is accepted as well)."""
    secrets: TlsSecrets = TlsSecrets()
    """mode secret."""
    cert_manager: CertManager = CertManager()
    """mode certManager."""
    generated: Generated = Generated()
    """mode generated."""


class Auth(Values):
    """Tokens of trainers and operators."""

    enabled: bool = True
    """Whether the gateway and the status page ask for one."""
    existing_secret: Name = ""
    """Secret with tokens.yaml (names, tokens, scopes) and token (one of them, for trainers and `helm test`); empty:
    made by the chart and kept over upgrades."""


CLIENT = Selector(match_labels={"tlt.dev/client": "true"})
ANY = Selector()


class NetworkPolicy(Values):
    """Who talks to whom. All else is refused, if the cluster enforces policies."""

    enabled: bool = True
    """Whether there are NetworkPolicies."""
    trainers: list[Peer] = [Peer(pod_selector=CLIENT, namespace_selector=ANY)]
    """Who may call the gateway; by default pods with label tlt.dev/client=true, in any namespace. Add your ingress."""
    status_page: list[Peer] = [Peer(pod_selector=CLIENT, namespace_selector=ANY)]
    """Who may open the coordinator's page."""
    prometheus: list[Peer] = [
        Peer(pod_selector=ANY, namespace_selector=Selector(match_labels={"kubernetes.io/metadata.name": "monitoring"}))
    ]
    """Who may read metrics."""
    kuberay: list[Peer] = [
        Peer(
            pod_selector=Selector(match_labels={"app.kubernetes.io/name": "kuberay-operator"}),
            namespace_selector=ANY,
        )
    ]
    """The KubeRay operator, which deploys to Ray's head."""
    dns: list[Peer] = [Peer(namespace_selector=Selector(match_labels={"kubernetes.io/metadata.name": "kube-system"}))]
    """Name servers."""
    dns_ports: list[int] = [53]
    """Their ports."""
    api_server: list[IpBlock] = [IpBlock(cidr="0.0.0.0/0"), IpBlock(cidr="::/0")]
    """Addresses of the Kubernetes API server, which the coordinator calls."""
    api_server_ports: list[int] = [443, 6443]
    """Its ports."""
    redis: list[Peer] = []
    """An external Redis; must be given with redis.mode external."""
    redis_ports: list[int] = [6379]
    """Its ports."""
    storage: list[Peer] = []
    """Object storage that workers read models from and write drafters to, and file servers they load weights from."""
    storage_ports: list[int] = [443]
    """Its ports."""
    traces: list[Peer] = []
    """The collector of traces; must be given with traces."""
    traces_ports: list[int] = [4317]
    """Its ports."""


class Monitor(Values):
    """Scraping by a Prometheus operator."""

    enabled: Auto = "auto"
    """auto: if the cluster knows PodMonitor."""
    interval: str = "15s"
    """Time between two looks."""
    labels: Labels = {}
    """By which your Prometheus chooses monitors, such as release: kube-prometheus-stack."""


class Rules(Values):
    """Alerts."""

    enabled: Auto = "auto"
    """auto: if the cluster knows PrometheusRule."""
    labels: Labels = {}
    """By which your Prometheus chooses rules."""
    runbook_url: str = ""
    """Where runbooks are served; put before the path in each alert."""


class Dashboards(Values):
    """Dashboards for Grafana's sidecar."""

    enabled: bool = True
    """Whether there are ConfigMaps with them."""
    labels: Labels = {"grafana_dashboard": "1"}
    """By which the sidecar finds them."""
    annotations: Labels = {}
    """Such as the sidecar's folder."""


class Monitoring(Values):
    """What a Prometheus operator and Grafana are told."""

    pod_monitors: Monitor = Monitor()
    """Scraping."""
    rules: Rules = Rules()
    """Alerts."""
    dashboards: Dashboards = Dashboards()
    """Dashboards."""
