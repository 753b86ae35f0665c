"""A RayService runs in real pods: becomes ready, heals, changes in place, goes without a trace."""

import urllib.request
from typing import Any

import pytest
import yaml

from tests.cluster.eventually import eventually
from tests.cluster.kube.client import Client, Object
from tests.cluster.kube.real_cluster import ROOT, RealCluster
from tests.cluster.pods import python_pod

READY_S = 150.0
SMALL = {"object-store-memory": "83886080"}


def pod_template(name: str, limits: dict[str, Any]) -> Object:
    """A Ray container as `restricted` admits it: Ray writes to /tmp alone."""
    pod: Object = python_pod(name, "")["spec"]
    main = {key: value for key, value in pod["containers"][0].items() if key != "command"}
    env = [{"name": "PYTHONPATH", "value": str(ROOT)}, {"name": "RAY_USAGE_STATS_ENABLED", "value": "0"}]
    mounts = [{"name": "tmp", "mountPath": "/tmp"}]  # noqa: S108 - a path in the pod
    # Ray counts the limits; the node, which may have only two cores, the requests.
    resources = {"limits": limits, "requests": {"cpu": "100m", "memory": "256Mi"}}
    main.update(name=name, env=env, volumeMounts=mounts, resources=resources)
    spec = {key: value for key, value in pod.items() if key != "restartPolicy"}
    return {"spec": {**spec, "containers": [main], "volumes": [{"name": "tmp", "emptyDir": {}}]}}


def serve_config(greeting: str) -> str:
    deployment = {"name": "greeter", "user_config": {"greeting": greeting}}
    application = {"name": "app", "route_prefix": "/", "import_path": "tests.cluster.serve_app:build"}
    return yaml.safe_dump(
        {"applications": [{**application, "args": {"greeting": greeting}, "deployments": [deployment]}]}
    )


def ray_service(greeting: str) -> Object:
    workers = {
        "groupName": "workers",
        "replicas": 1,
        "minReplicas": 1,
        "maxReplicas": 1,
        "rayStartParams": SMALL,
        "template": pod_template("ray-worker", {"cpu": "1", "memory": "2Gi", "nvidia.com/gpu": 1}),
    }
    head = {
        "rayStartParams": {**SMALL, "num-cpus": "0"},
        "template": pod_template("ray-head", {"cpu": "2", "memory": "3Gi"}),
    }
    config = {"rayVersion": "2.60.0", "headGroupSpec": head, "workerGroupSpecs": [workers]}
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayService",
        "metadata": {"name": "tiny"},
        "spec": {
            "upgradeStrategy": {"type": "None"},
            "serveConfigV2": serve_config(greeting),
            "rayClusterConfig": config,
        },
    }


def status(ns: Client) -> Object:
    found: Object = ns.json_of("get", "rayservice", "tiny").get("status", {})
    return found


def ready(ns: Client) -> bool:
    conditions = {found["type"]: found["status"] for found in status(ns).get("conditions", [])}
    return conditions.get("Ready") == "True"


def greeting(ns: Client) -> str:
    """What the application answers through its Service; empty while nobody answers."""
    address = ns.json_of("get", "service", "tiny-serve-svc")["spec"]["clusterIP"]
    try:
        with urllib.request.urlopen(f"http://{address}:8000/", timeout=10) as reply:
            said: str = reply.read().decode()
            return said
    except OSError:
        return ""


def workers(ns: Client) -> list[str]:
    return [pod["metadata"]["name"] for pod in ns.items("pods", "-l", "ray.io/node-type=worker")]


@pytest.mark.timeout(600)
def test_a_rayservice_lives_heals_changes_in_place_and_goes(kuberay: RealCluster, real_ns: Client) -> None:
    real_ns.apply(ray_service("hello"))
    eventually(lambda: ready(real_ns), READY_S)
    found = status(real_ns)
    assert found["serviceStatus"] == "Running"
    assert found["activeServiceStatus"]["applicationStatuses"]["app"]["status"] == "RUNNING"
    (first,) = workers(real_ns)
    assert eventually(lambda: greeting(real_ns)) == f"hello from {first}"

    real_ns.apply(ray_service("good morning"))
    eventually(lambda: greeting(real_ns) == f"good morning from {first}", READY_S)
    assert workers(real_ns) == [first]

    real_ns.kubectl("delete", "pod", first, "--now")
    eventually(lambda: first not in workers(real_ns) and "good morning" in greeting(real_ns), READY_S)
    (second,) = workers(real_ns)
    assert second in greeting(real_ns)

    real_ns.kubectl("delete", "rayservice", "tiny", "--timeout=120s")
    eventually(lambda: not real_ns.items("pods,rayclusters"), READY_S)
    eventually(lambda: [one for one in real_ns.items("services") if "tiny" in one["metadata"]["name"]] == [])
