"""16 nodes of 8 GPUs, simulated: who gets them, who waits, what a drained node takes along."""

import time
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path

import pytest

from tests.chart.rendering import Object
from tests.cluster.conftest import FAKE_NODES, GPUS, Seconds
from tests.cluster.eventually import eventually
from tests.cluster.kube import fake_nodes
from tests.cluster.kube.client import Client
from tests.cluster.kube.commands import CommandError
from tests.cluster.kube.control_plane import ControlPlane
from tests.cluster.kube.rest import RestError
from tests.cluster.release import pods, ray_cluster, without
from tests.cluster.rollouts import Rollouts, gpus_by_node, why_pending
from tests.fakes.ray_pods import worker_pod

CPU_NODES = ("cpu-0", "cpu-1", "cpu-2")
FULL = {f"gpu-{index}": GPUS for index in range(FAKE_NODES)}
WORKERS, STAY = 128, 112  # as the value set says
DRAIN = ("--ignore-daemonsets", "--delete-emptydir-data")


@pytest.fixture(scope="module")
def cpu_nodes(control_plane: ControlPlane) -> Iterator[None]:
    """Nodes for all but workers."""
    fake_nodes.add(control_plane, *map(fake_nodes.cpu_node, CPU_NODES))
    yield
    control_plane.kubectl("delete", "node", *CPU_NODES)


@pytest.fixture(scope="module", params=[("sixteen-nodes", 128), ("sixteen-nodes-tp8", 16)], ids=lambda param: param[0])
def fleet(
    request: pytest.FixtureRequest, module_ns: Client, schemas_folder: Path, cpu_nodes: None, seconds: Seconds
) -> Iterator[Rollouts]:
    """A release that has all GPUs; whatever a test does, it has them again when the test ends."""
    values, count = request.param
    rollouts, began = Rollouts(module_ns, values), time.monotonic()
    rollouts.start(count)
    seconds.setdefault("fake GPU nodes", {})[f"{values} placed"] = time.monotonic() - began
    yield rollouts
    rollouts.remove()


one_gpu = pytest.mark.parametrize("fleet", [("sixteen-nodes", WORKERS)], indirect=True, ids=["sixteen-nodes"])


def test_workers_take_all_gpus_and_one_more_waits(fleet: Rollouts) -> None:
    assert gpus_by_node(fleet.running()) == FULL
    cluster = ray_cluster(fleet.services()[0])
    extra = worker_pod(cluster, cluster.spec["workerGroupSpecs"][0])
    del extra["metadata"]["ownerReferences"]
    path = f"/api/v1/namespaces/{fleet.ns.namespace}/pods"
    name = fleet.ns.rest().create(path, extra)["metadata"]["name"]
    eventually(lambda: "Insufficient nvidia.com/gpu" in why_pending(fleet.ns.json_of("get", "pod", name)))
    fleet.ns.rest().delete(f"{path}/{name}")


def test_priority_and_queue_are_passed_on(fleet: Rollouts) -> None:
    (service,) = fleet.services()
    assert service["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "rollouts"
    assert {pod["spec"]["priority"] for pod in fleet.workers()} == {1000}
    assert {pod["spec"]["priority"] for pod in pods(fleet.ns, "head")} == {0}


@one_gpu
def test_replicas_are_on_nodes_of_their_own(fleet: Rollouts) -> None:
    first, second = eventually(lambda: placed(fleet.ns, "gateway", 2))
    assert first["spec"]["nodeName"] != second["spec"]["nodeName"]
    assert {first["spec"]["nodeName"], second["spec"]["nodeName"]} < set(CPU_NODES)


def placed(ns: Client, component: str, count: int) -> list[Object]:
    """Its pods, once that many have a node."""
    found = [pod for pod in pods(ns, component) if "nodeName" in pod["spec"]]
    return found if len(found) == count else []


@one_gpu
@pytest.mark.parametrize("component", ["gateway", "cache"])
def test_a_second_replica_is_not_evicted_before_the_first_is_back(
    fleet: Rollouts, control_plane: ControlPlane, component: str
) -> None:
    count = 4 if component == "cache" else 2
    one, other, *_ = eventually(lambda: placed(fleet.ns, component, count))
    eventually(lambda: allowed(fleet.ns, component) == 1)
    with without(control_plane, list(CPU_NODES)):
        evict(fleet.ns, one)
        with pytest.raises(RestError, match="violate the pod's disruption budget") as caught:
            evict(fleet.ns, other)
        assert caught.value.status == HTTPStatus.TOO_MANY_REQUESTS
    eventually(lambda: allowed(fleet.ns, component) == 1)
    evict(fleet.ns, other)
    eventually(lambda: allowed(fleet.ns, component) == 1)


def allowed(ns: Client, component: str) -> int:
    """Pods that may be evicted now."""
    status = ns.json_of("get", "pdb", f"rl-tlt-{component}")["status"]
    return int(status["disruptionsAllowed"])


def evict(ns: Client, pod: Object) -> None:
    """What `kubectl drain` asks for each pod."""
    meta = {"name": pod["metadata"]["name"], "namespace": ns.namespace}
    path = f"/api/v1/namespaces/{ns.namespace}/pods/{meta['name']}/eviction"
    ns.rest().create(path, {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": meta})


@one_gpu
def test_nodes_are_drained_down_to_the_budget_and_no_further(
    fleet: Rollouts, control_plane: ControlPlane, seconds: Seconds
) -> None:
    eventually(lambda: allowed(fleet.ns, "worker") == WORKERS - STAY)
    began = time.monotonic()
    with without(control_plane, ["gpu-0", "gpu-1", "gpu-2"]):
        control_plane.kubectl("drain", "gpu-0", "gpu-1", *DRAIN, "--timeout=60s")
        seconds["fake GPU nodes"]["two drained"] = time.monotonic() - began
        assert gpus_by_node(fleet.running()) == {name: GPUS for name in FULL if name not in {"gpu-0", "gpu-1"}}
        with pytest.raises(CommandError, match="violate the pod's disruption budget"):
            control_plane.kubectl("drain", "gpu-2", *DRAIN, "--timeout=1s")
        assert gpus_by_node(fleet.running())["gpu-2"] == GPUS
        fleet.settle(lambda: len(fleet.workers()) == WORKERS)  # 16 of them wait
    fleet.settle(lambda: gpus_by_node(fleet.running()) == FULL)
    eventually(lambda: allowed(fleet.ns, "worker") == WORKERS - STAY)


@one_gpu
def test_workers_of_another_image_wait_for_the_gpus_of_the_old(fleet: Rollouts, seconds: Seconds) -> None:
    (old,) = fleet.services()
    fleet.install("image.engine.tag=0.2.0")
    (new,) = [service for service in fleet.services() if service["metadata"]["uid"] != old["metadata"]["uid"]]
    began = time.monotonic()

    def waiting() -> bool:
        fleet.operator.reconcile(fleet.ns.json_of("get", "rayservice", new["metadata"]["name"]))
        pods_of_new = [pod for pod in fleet.workers() if image(pod).endswith(":0.2.0")]
        return len(pods_of_new) == WORKERS and all("Insufficient" in why_pending(pod) for pod in pods_of_new)

    eventually(waiting)  # the old ones end late: nobody has told their operator yet
    assert gpus_by_node(fleet.running()) == FULL
    assert not any(image(pod).endswith(":0.2.0") for pod in fleet.running())
    fleet.settle(lambda: [image(pod)[-6:] for pod in fleet.running()] == [":0.2.0"] * WORKERS)
    assert gpus_by_node(fleet.workers()) == FULL
    fleet.settle(lambda: [service["metadata"]["uid"] for service in fleet.services()] == [new["metadata"]["uid"]])
    seconds["fake GPU nodes"]["another image"] = time.monotonic() - began


def image(pod: Object) -> str:
    name: str = pod["spec"]["containers"][0]["image"]
    return name
