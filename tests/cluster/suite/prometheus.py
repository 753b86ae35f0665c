"""Prometheus in a pod, which scrapes the suite's pods as the chart's PodMonitors say."""

import yaml

from tests.cluster.eventually import eventually
from tests.cluster.kube.binaries import binary
from tests.cluster.kube.client import Client, Object
from tests.cluster.pods import python_pod, with_volumes

NAMESPACE = "monitoring"  # where the chart's network policies expect it
COMPONENTS = ("gateway", "coordinator", "cache", "tuner", "worker")
PORTS = ("metrics", "trainer-metrics")


def start(admin: Client, ns: Client, release: str, ca: bytes) -> str:
    """Start it and wait until it answers; return its URL."""
    admin.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    inside = admin.inside(NAMESPACE)
    config = {
        "global": {"scrape_interval": "2s", "scrape_timeout": "2s"},
        "scrape_configs": [_job(ns, component, release) for component in COMPONENTS],
    }
    files = {"prometheus.yaml": yaml.safe_dump(config), "ca.crt": ca.decode()}
    inside.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "prometheus"}, "data": files})
    volumes: dict[str, Object] = {"/etc/prometheus": {"configMap": {"name": "prometheus"}}, "/data": {"emptyDir": {}}}
    pod = with_volumes(python_pod("prometheus", ""), volumes)
    (container,) = pod["spec"]["containers"]
    container["command"] = [
        *(str(binary("prometheus")), "--config.file=/etc/prometheus/prometheus.yaml", "--log.level=warn"),
        *("--storage.tsdb.path=/data", "--web.listen-address=:9090"),
    ]
    container["readinessProbe"] = {"httpGet": {"path": "/-/ready", "port": 9090}, "periodSeconds": 1}
    inside.apply(pod)
    inside.kubectl("wait", "--for=condition=Ready", "pod/prometheus", "--timeout=60s")
    address = eventually(lambda: inside.json_of("get", "pod", "prometheus")["status"].get("podIP"))
    return f"http://{address}:9090"


def _job(ns: Client, component: str, release: str) -> Object:
    """Pods as they are now: Debian's Prometheus knows no Kubernetes."""
    selector = f"app.kubernetes.io/instance={release},app.kubernetes.io/component={component}"
    return {
        "job_name": component,
        "scheme": "https",
        "tls_config": {"ca_file": "/etc/prometheus/ca.crt", "server_name": f"{component}.tlt.internal"},
        "static_configs": [
            {
                "targets": [f"{pod['status']['podIP']}:{port['containerPort']}"],
                "labels": {"release": release, "namespace": str(ns.namespace), "pod": pod["metadata"]["name"]},
            }
            for pod in ns.items("pods", "-l", selector)
            for port in pod["spec"]["containers"][0]["ports"]
            if port.get("name") in PORTS
        ],
    }
