"""Prometheus in a pod, which finds and scrapes the suite's pods as the chart's PodMonitors say."""

from typing import Any

import yaml

from tests.cluster.eventually import eventually
from tests.cluster.kube.binaries import binary
from tests.cluster.kube.client import Client, Object
from tests.cluster.kube.images import PYTHON
from tests.cluster.pods import python_pod, with_volumes

NAMESPACE = "monitoring"  # where the chart's network policies expect it
PORTS = {"gateway": 1, "coordinator": 1, "cache": 1, "tuner": 1, "worker": 2}


def start(admin: Client, release: str, namespace: str, ca: bytes) -> str:
    """Start it and wait until it answers; return its URL."""
    admin.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}, *_rights())
    inside = admin.inside(NAMESPACE)
    files = {"prometheus.yaml": yaml.safe_dump(_config(release, namespace)), "ca.crt": ca.decode()}
    inside.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "prometheus"}, "data": files})
    pod = with_volumes(
        python_pod("prometheus", ""),
        {"/etc/prometheus": {"configMap": {"name": "prometheus"}}, "/data": {"emptyDir": {}}},
    )
    (container,) = pod["spec"]["containers"]
    container["command"] = [
        *(str(binary("prometheus")), "--config.file=/etc/prometheus/prometheus.yaml", "--log.level=warn"),
        *("--storage.tsdb.path=/data", "--web.listen-address=:9090"),
    ]
    container["image"] = PYTHON
    container["readinessProbe"] = {"httpGet": {"path": "/-/ready", "port": 9090}, "periodSeconds": 1}
    pod["spec"]["automountServiceAccountToken"] = True
    inside.apply(pod)
    inside.kubectl("wait", "--for=condition=Ready", "pod/prometheus", "--timeout=60s")
    address = eventually(lambda: inside.json_of("get", "pod", "prometheus")["status"].get("podIP"))
    return f"http://{address}:9090"


def _config(release: str, namespace: str) -> Object:
    return {
        "global": {"scrape_interval": "2s", "scrape_timeout": "2s"},
        "scrape_configs": [_job(component, release, namespace) for component in PORTS],
    }


def _job(component: str, release: str, namespace: str) -> Object:
    pod = "__meta_kubernetes_pod"

    def keep(label: str, value: str) -> Any:
        return {"source_labels": [f"{pod}_{label}"], "regex": value, "action": "keep"}

    return {
        "job_name": component,
        "scheme": "https",
        "tls_config": {"ca_file": "/etc/prometheus/ca.crt", "server_name": f"{component}.tlt.internal"},
        "kubernetes_sd_configs": [{"role": "pod", "namespaces": {"names": [namespace]}}],
        "relabel_configs": [
            keep("label_app_kubernetes_io_instance", release),
            keep("label_app_kubernetes_io_component", component),
            keep("container_port_name", "metrics|trainer-metrics"),
            {"source_labels": [f"{pod}_label_app_kubernetes_io_instance"], "target_label": "release"},
            {"source_labels": [f"{pod}_name"], "target_label": "pod"},
            {"source_labels": ["__meta_kubernetes_namespace"], "target_label": "namespace"},
        ],
    }


def _rights() -> list[Object]:
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]}]
    subject = {"kind": "ServiceAccount", "name": "default", "namespace": NAMESPACE}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "prometheus"}
    common = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": "prometheus"}}
    return [
        {**common, "kind": "ClusterRole", "rules": rules},
        {**common, "kind": "ClusterRoleBinding", "roleRef": role, "subjects": [subject]},
    ]
