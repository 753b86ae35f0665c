"""Pods really run: services and names, probes, GPUs, environments of this host, network policies."""

import json
import urllib.request

import pytest

from tests.cluster.conftest import PRODUCT
from tests.cluster.eventually import eventually
from tests.cluster.kube.client import Client, Object
from tests.cluster.pods import finished, python_pod

SERVER = """
import http.server, os
broken = False
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        global broken
        broken = broken or self.path == "/break"
        self.send_response(500 if broken and self.path == "/healthz" else 200); self.end_headers()
        self.wfile.write(os.environ["HOSTNAME"].encode())
    def log_message(self, *args): pass
http.server.ThreadingHTTPServer(("", 8080), Handler).serve_forever()
"""
SLEEP = "import time; time.sleep(600)"
CALL = "import urllib.request as u; print(u.urlopen('http://web', timeout=2).status)"


@pytest.fixture
def web(real_ns: Client) -> Client:
    """A namespace with two servers behind the Service `web`."""
    probe = {"httpGet": {"path": "/healthz", "port": "http"}, "periodSeconds": 1}
    pod = python_pod(
        "web",
        SERVER,
        labels={"app": "web"},
        ports=[{"containerPort": 8080, "name": "http"}],
        readinessProbe=probe,
        livenessProbe={**probe, "failureThreshold": 2},
        resources={"limits": {"cpu": "200m", "memory": "64Mi"}},
    )
    template: Object = {"metadata": {"labels": {"app": "web"}}, "spec": {**pod["spec"], "restartPolicy": "Always"}}
    spec = {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    real_ns.apply({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec})
    service = {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": "http"}]}
    real_ns.apply({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": service})
    real_ns.kubectl("rollout", "status", "deployment/web", "--timeout=90s")
    return real_ns


def fetch(url: str) -> str:
    with urllib.request.urlopen(url, timeout=3) as reply:  # noqa: S310 - a pod of ours
        text: str = reply.read().decode()
        return text


def test_a_service_spreads_calls_and_a_sick_pod_is_restarted(web: Client) -> None:
    address = web.json_of("get", "service", "web")["spec"]["clusterIP"]
    pods = {pod["metadata"]["name"]: pod["status"]["podIP"] for pod in web.items("pods")}
    eventually(lambda: {fetch(f"http://{address}") for _ in range(40)} == set(pods))
    name, ip = next(iter(pods.items()))
    fetch(f"http://{ip}:8080/break")

    def restarts() -> int:
        count: int = web.json_of("get", "pod", name)["status"]["containerStatuses"][0]["restartCount"]
        return count

    assert eventually(restarts) == 1


def test_each_gpu_pod_has_devices_of_its_own(real_ns: Client) -> None:
    names = [f"gpu-{index}" for index in range(4)]
    code = "import os, time; print(os.environ['NVIDIA_VISIBLE_DEVICES'], flush=True); time.sleep(2)"
    for name in names:
        real_ns.apply(python_pod(name, code, resources={"limits": {"nvidia.com/gpu": 2}}))
    devices = ",".join(finished(real_ns, name).strip() for name in names)
    assert sorted(devices.split(",")) == [str(number) for number in range(8)]


def test_the_environment_of_this_host_works_in_a_restricted_pod(real_ns: Client) -> None:
    code = "import os, json, grpc, tlt_common; print(json.dumps([grpc.__version__, tlt_common.__file__, os.getuid()]))"
    real_ns.apply(python_pod("environment", code))
    import grpc

    import tlt_common

    assert json.loads(finished(real_ns, "environment")) == [grpc.__version__, tlt_common.__file__, 65532]


def test_the_product_image_starts_tlt(real_ns: Client) -> None:
    pod = python_pod("product", "", image=PRODUCT, args=["--help"])
    del pod["spec"]["containers"][0]["command"]
    real_ns.apply(pod)
    assert "serve" in finished(real_ns, "product")
