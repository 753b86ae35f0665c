"""Workers of a release on fake nodes: pods as KubeRay makes them, by our stand-in for its operator."""

from collections import Counter
from collections.abc import Callable

from tests.chart.rendering import Object
from tests.cluster.eventually import eventually
from tests.cluster.kube.client import Client
from tests.cluster.release import install, pods, prepare
from tests.fakes.rayservice_operator import Operator

GPU = "nvidia.com/gpu"


class Rollouts:
    """A release whose Ray pods exist; nothing happens to them but when a test says so."""

    def __init__(self, ns: Client, values: str) -> None:
        self.ns = ns
        self.values = values
        self.operator = Operator(ns.rest(), pods_only=True)

    def install(self, *settings: str) -> None:
        """Install, or upgrade with settings."""
        install(self.ns, self.values, *settings)

    def settle(self, reached: Callable[[], object]) -> None:
        """Let the operator work until something is so."""

        def check() -> object:
            self.operator.reconcile_all()
            return reached()

        eventually(check)

    def start(self, workers: int) -> None:
        """Install; returns when all workers run."""
        prepare(self.ns)
        self.install()
        self.settle(lambda: len(self.running()) == workers)

    def remove(self) -> None:
        """Uninstall; returns when no pod is left."""
        self.ns.helm("uninstall", "rl")
        self.settle(lambda: not self.ns.rest().items(f"/api/v1/namespaces/{self.ns.namespace}/pods"))

    def services(self) -> list[Object]:
        """RayServices, the oldest first."""
        found = self.ns.rest().items(f"/apis/ray.io/v1/namespaces/{self.ns.namespace}/rayservices")
        return sorted(found, key=lambda service: str(service["metadata"]["creationTimestamp"]))

    def workers(self) -> list[Object]:
        return pods(self.ns, "worker")

    def running(self) -> list[Object]:
        """Workers that have a node."""
        return [pod for pod in self.workers() if pod["status"]["phase"] == "Running"]


def gpus_by_node(workers: list[Object]) -> Counter[str]:
    """How many GPUs are taken on each node."""
    taken: Counter[str] = Counter()
    for pod in workers:
        taken[pod["spec"]["nodeName"]] += int(pod["spec"]["containers"][0]["resources"]["limits"][GPU])
    return taken


def why_pending(pod: Object) -> str:
    """What the scheduler says of a pod."""
    return "".join(condition.get("message", "") for condition in pod["status"].get("conditions", []))
