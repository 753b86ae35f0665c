"""Pod permissions: the restricted Pod Security level, a read-only root file system, no unneeded tokens."""

from pathlib import PurePosixPath
from typing import Any

import pytest

from tests.chart.rendering import VALUE_SETS, Pod, render

PODS = [
    (name, component)
    for name in VALUE_SETS
    for component in ("gateway", "coordinator", "cache", "tuner", "worker", "head", "test")
]
WRITABLE = {"emptyDir", "persistentVolumeClaim", "hostPath"}


def pods() -> list[Any]:
    return [pytest.param(name, component, id=f"{name}-{component}") for name, component in PODS]


def pod_of(name: str, component: str) -> Pod:
    return render(name).pods[component]


@pytest.mark.parametrize(("name", "component"), pods())
def test_pods_meet_the_restricted_level(name: str, component: str) -> None:
    pod = pod_of(name, component)
    assert pod.spec["securityContext"]["runAsNonRoot"] is True
    assert pod.spec["securityContext"].get("runAsUser") == (None if name == "platform" else 65532)
    assert pod.spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert not {"hostNetwork", "hostPID", "hostIPC"} & pod.spec.keys()
    for container in pod.containers:
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "runAsNonRoot": True,
            "capabilities": {"drop": ["ALL"]},
            "seccompProfile": {"type": "RuntimeDefault"},
        }


@pytest.mark.parametrize(("name", "component"), pods())
def test_only_the_coordinator_holds_a_token_of_the_api_server(name: str, component: str) -> None:
    pod = pod_of(name, component)
    assert pod.spec["automountServiceAccountToken"] is (component == "coordinator")
    assert pod.spec["serviceAccountName"] == f"rl-tlt-{component}"
    assert component in render(name).of("ServiceAccount")


@pytest.mark.parametrize(("name", "component"), pods())
def test_mounts_have_volumes_and_writable_paths_are_mounted(name: str, component: str) -> None:
    pod = pod_of(name, component)
    volumes = {volume["name"]: volume for volume in pod.spec["volumes"]}
    for container in pod.containers:
        mounts = {mount["mountPath"]: mount for mount in container["volumeMounts"]}
        assert {mount["name"] for mount in mounts.values()} <= volumes.keys()
        assert WRITABLE & volumes[mounts["/tmp"]["name"]].keys()
        assert {"name": "HOME", "value": "/tmp"} in container["env"]


@pytest.mark.parametrize(("name", "component"), pods())
def test_containers_have_requests_and_limits(name: str, component: str) -> None:
    for container in pod_of(name, component).containers:
        assert {"cpu", "memory"} <= container["resources"]["requests"].keys()
        assert "memory" in container["resources"]["limits"]


@pytest.mark.parametrize("name", [name for name in VALUE_SETS if name != "air-gapped"])
def test_no_host_path_unless_asked_for(name: str) -> None:
    assert not any("hostPath" in volume for pod in render(name).pods.values() for volume in pod.spec["volumes"])


def test_host_paths_of_models_are_read_only() -> None:
    worker = pod_of("air-gapped", "worker")
    mounts = {mount["name"]: mount for mount in worker.main["volumeMounts"]}
    assert mounts["model"]["readOnly"] is True
    assert PurePosixPath(mounts["model"]["mountPath"]).is_absolute()


def test_redis_is_restricted_as_well() -> None:
    redis = pod_of("tiny-cpu", "redis")
    assert redis.spec["automountServiceAccountToken"] is False
    assert redis.main["securityContext"]["readOnlyRootFilesystem"] is True


def test_the_coordinator_may_do_four_things() -> None:
    rendered = render()
    rules = rendered.one("Role")["rules"]
    assert rules == [
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "patch"]},
        {"apiGroups": [""], "resources": ["events"], "verbs": ["create", "patch"]},
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create"]},
        {
            "apiGroups": [""],
            "resources": ["configmaps"],
            "resourceNames": [rendered.config("coordinator")["kubernetes"]["config_map"]],
            "verbs": ["get", "update"],
        },
    ]
    binding = rendered.one("RoleBinding")
    assert binding["roleRef"]["name"] == rendered.one("Role")["metadata"]["name"]
    assert [subject["name"] for subject in binding["subjects"]] == ["rl-tlt-coordinator"]
    assert not rendered.of("ClusterRole")
