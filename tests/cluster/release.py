"""A release of the chart in a namespace of its own, and what value sets ask of a cluster beforehand."""

from collections.abc import Iterator
from contextlib import contextmanager

import yaml

from tests.chart.rendering import CHART, Object
from tests.cluster.kube.client import Client
from tests.cluster.kube.control_plane import ControlPlane
from tests.fakes.ray_pods import Cluster

RELEASE = "rl"
SECRETS = {
    "redis": ("url",),
    "tokens": ("tokens.yaml", "token"),
    **{
        f"{name}-tls": ("tls.crt", "tls.key", "ca.crt")
        for name in ("gateway", "coordinator", "cache", "tuner", "worker", "redis")
    },
}
PASSING = {"events", "events.events.k8s.io"}  # gone after an hour
CLUSTER_WIDE: tuple[Object, ...] = (
    {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "training"},
        "value": 1000,
        "preemptionPolicy": "Never",
    },
    {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "nvidia"}, "handler": "nvidia"},
)


def prepare(ns: Client) -> None:
    """Make all that value sets name: secrets, a claim that is bound, a PriorityClass, a RuntimeClass."""
    items = [*CLUSTER_WIDE, *(_secret(name, keys) for name, keys in SECRETS.items()), *_claim(ns, "spool")]
    ns.apply({"apiVersion": "v1", "kind": "List", "items": items})


def install(ns: Client, values: str, *settings: str) -> None:
    """Install or upgrade with a value set and settings of the form KEY=VALUE."""
    chosen = (part for setting in settings for part in ("--set", setting))
    ns.helm("upgrade", "--install", RELEASE, CHART, "--values", CHART / "ci" / f"{values}.yaml", *chosen)


def objects(ns: Client) -> set[str]:
    """All objects in the namespace, as KIND/NAME."""
    kinds = ns.kubectl("api-resources", "--namespaced", "--verbs=list", "--output=name").split()
    return set(ns.kubectl("get", ",".join(sorted(set(kinds) - PASSING)), "--output=name").split())


def ray_service(ns: Client) -> Object:
    """The only RayService."""
    (service,) = ns.items("rayservices")
    return service


def told(service: Object) -> Object:
    """What workers are told by a RayService."""
    config: Object = yaml.safe_load(service["spec"]["serveConfigV2"])["applications"][0]["args"]["worker"]
    return config


def ray_cluster(service: Object) -> Cluster:
    """The Ray cluster that KubeRay makes of it."""
    meta, spec = service["metadata"], service["spec"]["rayClusterConfig"]
    return Cluster(name=f"{meta['name']}-x", namespace=meta["namespace"], uid="x", spec=spec)


def pods(ns: Client, component: str = "") -> list[Object]:
    """Pods that are not leaving, of one component or of all."""
    selector = f"?labelSelector=app.kubernetes.io/component={component}" if component else ""
    found = ns.rest().items(f"/api/v1/namespaces/{ns.namespace}/pods{selector}")
    return [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]


@contextmanager
def without(cluster: ControlPlane, nodes: list[str]) -> Iterator[None]:
    """Meanwhile nothing new comes to these nodes."""
    cluster.kubectl("cordon", *nodes)
    try:
        yield
    finally:
        cluster.kubectl("uncordon", *nodes)


def _secret(name: str, keys: tuple[str, ...]) -> Object:
    data = dict.fromkeys(keys, "of no meaning on fake nodes")
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": data}


def _claim(ns: Client, name: str) -> tuple[Object, Object]:
    """A claim, and the volume it is bound to."""
    volume = f"{ns.namespace}-{name}"
    common = {"accessModes": ["ReadWriteMany"], "storageClassName": ""}
    reference = {"namespace": ns.namespace, "name": name}
    space = {"capacity": {"storage": "1Gi"}, "hostPath": {"path": "/nowhere"}, "claimRef": reference}
    asked = {"resources": {"requests": {"storage": "1Gi"}}, "volumeName": volume}
    return (
        {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": volume}, "spec": {**common, **space}},
        {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": {**common, **asked}},
    )
