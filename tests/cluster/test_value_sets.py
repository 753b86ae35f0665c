"""Every value set on a real API server: valid, admitted, changed, put back, and gone without a trace."""

import time
from pathlib import Path

import pytest

from tests.chart.rendering import VALUE_SETS, Object
from tests.cluster.conftest import Seconds
from tests.cluster.eventually import eventually
from tests.cluster.kube import schemas
from tests.cluster.kube.client import Client
from tests.cluster.kube.rest import RestError
from tests.cluster.release import RELEASE, install, objects, pods, prepare, ray_cluster, ray_service, told
from tests.fakes.ray_pods import head_pod, worker_pod

HOST_PATHS = {"air-gapped"}
KEPT = {"persistentvolumeclaim/rl-tlt-drafters"}  # where the chart makes it: see drafters.yaml


@pytest.mark.parametrize("name", VALUE_SETS)
def test_a_value_set_from_install_to_uninstall(ns: Client, schemas_folder: Path, seconds: Seconds, name: str) -> None:
    prepare(ns)
    before, began = objects(ns), time.monotonic()
    install(ns, name)
    manifest = ns.helm("get", "manifest", RELEASE)
    schemas.check(manifest, schemas_folder)
    are_made(ns)
    are_admitted(ns, name)
    is_changed_and_put_back(ns, name)
    assert ns.helm("get", "manifest", RELEASE) == manifest
    ns.helm("uninstall", RELEASE)
    kept = KEPT if f"name: {RELEASE}-tlt-drafters\n" in manifest else set()
    eventually(lambda: objects(ns) - before == kept)
    seconds.setdefault("value sets", {})[name] = time.monotonic() - began


def are_made(ns: Client) -> None:
    """Controllers made all their pods: none was refused."""
    try:
        eventually(lambda: created(ns) == wanted(ns))
    except AssertionError as error:
        error.add_note(ns.kubectl("events", "--types=Warning"))
        raise


def wanted(ns: Client) -> dict[str, int]:
    """Pods that controllers were told to make, by component."""
    owners = ns.items("deployments,statefulsets")
    return {item["metadata"]["labels"]["app.kubernetes.io/component"]: item["spec"]["replicas"] for item in owners}


def created(ns: Client) -> dict[str, int]:
    """Pods that were admitted, by component."""
    found = [pod["metadata"]["labels"]["app.kubernetes.io/component"] for pod in pods(ns)]
    return {component: found.count(component) for component in found}


def are_admitted(ns: Client, name: str) -> None:
    """The pods that KubeRay makes are taken by a namespace of the restricted level, host paths excepted."""
    cluster = ray_cluster(ray_service(ns))
    create(ns, head_pod(cluster))
    (group,) = cluster.spec["workerGroupSpecs"]
    worker = worker_pod(cluster, group)
    if name in HOST_PATHS:
        with pytest.raises(RestError, match=r"restricted:latest\W+restricted volume types [^:]*hostPath"):
            create(ns, worker)
        worker = without_host_paths(worker)
    create(ns, worker)


def create(ns: Client, pod: Object) -> None:
    """As if: all of admission, and nothing is kept."""
    ns.rest().create(f"/api/v1/namespaces/{ns.namespace}/pods?dryRun=All", pod)


def without_host_paths(pod: Object) -> Object:
    spec = pod["spec"]
    volumes = [volume for volume in spec["volumes"] if "hostPath" not in volume]
    names = {volume["name"] for volume in volumes}
    for container in (*spec["containers"], *spec["initContainers"]):
        container["volumeMounts"] = [mount for mount in container["volumeMounts"] if mount["name"] in names]
    return {**pod, "spec": {**spec, "volumes": volumes}}


def is_changed_and_put_back(ns: Client, name: str) -> None:
    first = ray_service(ns)
    install(ns, name, "worker.config.engine.max_running=7")
    changed = ray_service(ns)
    assert told(changed)["engine"]["max_running"] == 7
    ns.helm("rollback", RELEASE, "1")
    back = ray_service(ns)
    assert told(back) == told(first)
    assert first["metadata"]["uid"] == changed["metadata"]["uid"] == back["metadata"]["uid"]
