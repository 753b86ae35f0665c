"""What platforms ask of every pod: limits of CPU, users of their own, sidecars, private authorities, placement."""

from typing import Any

import pytest

from tests.chart.rendering import VALUE_SETS, Object, RenderError, render

COMPONENTS = ("gateway", "coordinator", "cache", "tuner", "redis", "worker", "head", "test")
CA = {"name": "company", "mountPath": "/etc/company", "readOnly": True}


def container(component: str, name: str = "") -> Object:
    pod = render("platform").pods[component]
    found: Object = next(item for item in pod.containers if item["name"] == name) if name else pod.main
    return found


def env(component: str, name: str = "") -> dict[str, str]:
    return {item["name"]: item.get("value", "") for item in container(component, name)["env"]}


@pytest.mark.parametrize("component", COMPONENTS)
def test_every_container_can_have_a_limit_of_cpu(component: str) -> None:
    for item in render("platform").pods[component].containers:
        assert {"cpu", "memory"} <= item["resources"]["limits"].keys(), item["name"]


@pytest.mark.parametrize("component", COMPONENTS)
def test_users_are_left_to_the_cluster(component: str) -> None:
    pod = render("platform").pods[component]
    assert not {"runAsUser", "runAsGroup", "fsGroup"} & pod.spec["securityContext"].keys()
    assert pod.spec["securityContext"]["runAsNonRoot"] is True


def test_a_user_that_is_assigned_has_a_name() -> None:
    assert env("worker", "fetch")["USER"] == env("gateway")["USER"] == "tlt"
    assert "USER" not in {item["name"] for item in render().pods["gateway"].main["env"]}


@pytest.mark.parametrize("user", [0, -1, "tlt"])
def test_a_user_is_an_id_and_not_root(user: Any) -> None:
    with pytest.raises(RenderError, match="runAsUser"):
        render({"securityContext": {"runAsUser": user}})


@pytest.mark.parametrize("component", COMPONENTS)
def test_every_container_has_the_environment_and_the_mounts_of_all(component: str) -> None:
    pod = render("platform").pods[component]
    assert {"name": "company", "configMap": {"name": "company-ca"}} in pod.spec["volumes"]
    for item in pod.containers:
        assert {"name": "SSL_CERT_FILE", "value": "/etc/company/ca.crt"} in item["env"], item["name"]
        assert CA in item["volumeMounts"], item["name"]


@pytest.mark.parametrize("name", VALUE_SETS)
def test_no_variable_and_no_mount_is_given_twice(name: str) -> None:
    for pod in render(name).pods.values():
        for item in pod.containers:
            for names in ([each["name"] for each in item["env"]], [each["mountPath"] for each in item["volumeMounts"]]):
                assert len(names) == len(set(names)), (pod.component, item["name"])


def test_a_variable_of_the_chart_can_be_replaced() -> None:
    pods = render({"worker": {"env": [{"name": "HOME", "value": "/data"}]}}).pods
    for item in pods["worker"].containers:
        assert [each["value"] for each in item["env"] if each["name"] == "HOME"] == ["/data"]
    assert {"name": "HOME", "value": "/tmp"} in pods["gateway"].main["env"]  # noqa: S108 - in the pod


def test_what_workers_are_given_reaches_their_init_containers() -> None:
    for name in ("fetch", "check", "ray-worker"):
        assert env("worker", name)["AWS_CA_BUNDLE"] == "/etc/company/ca.crt"
        assert {"name": "cache", "mountPath": "/cache"} in container("worker", name)["volumeMounts"]
    assert env("worker", "fetch")["LEVEL"] == "fetch"
    assert env("worker", "check")["LEVEL"] == env("worker")["LEVEL"] == "worker"
    assert env("tuner")["LEVEL"] == "all"
    assert "AWS_CA_BUNDLE" not in env("gateway")


@pytest.mark.parametrize("component", COMPONENTS)
def test_labels_and_annotations_of_all_are_on_every_pod(component: str) -> None:
    metadata = render("platform").pods[component].metadata
    inject = "false" if component == "gateway" else "true"
    assert metadata["labels"]["sidecar.istio.io/inject"] == inject
    assert metadata["annotations"]["proxy.istio.io/config"] == "holdApplicationUntilProxyStarts: true"


def test_the_test_has_its_own_settings_and_stays_a_hook() -> None:
    values = {
        "labels": {"team": "rl"},
        "test": {"podLabels": {"a": "b"}, "podAnnotations": {"c": "d"}, "env": [{"name": "E", "value": "f"}]},
    }
    pod = render(values).pods["test"]
    assert {"a": "b", "team": "rl"}.items() <= pod.metadata["labels"].items()
    assert pod.metadata["annotations"] == {
        "c": "d",
        "helm.sh/hook": "test",
        "helm.sh/hook-delete-policy": "before-hook-creation",
    }
    assert {"name": "E", "value": "f"} in pod.main["env"]


@pytest.mark.parametrize("component", COMPONENTS)
def test_placement_is_set_once_for_all(component: str) -> None:
    spec = render("platform").pods[component].spec
    assert spec["nodeSelector"] == {
        "kubernetes.io/arch": "amd64",
        "pool": "cpu" if component == "gateway" else "gpu",
    }
    assert {"key": "dedicated", "value": "rl", "effect": "NoSchedule"} in spec["tolerations"]
    assert spec["affinity"]["nodeAffinity"]
    assert render().pods[component].spec["nodeSelector"] == {"kubernetes.io/arch": "amd64"}


def test_the_architecture_can_be_taken_away() -> None:
    pods = render({"global": {"nodeSelector": {"kubernetes.io/arch": None}}}).pods
    assert not any("nodeSelector" in pod.spec for pod in pods.values())


def test_an_affinity_of_a_component_replaces_that_of_all() -> None:
    own = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "rack"}]}}
    values = {"global": {"affinity": {"nodeAffinity": {}}}, "cache": {"affinity": own}}
    pods = render(values).pods
    assert pods["cache"].spec["affinity"] == own
    assert pods["tuner"].spec["affinity"] == {"nodeAffinity": {}}


@pytest.mark.parametrize(
    "values",
    [
        {"global": {"volumes": [{"name": "a", "nothing": {}}]}},
        {"worker": {"volumeMounts": [{"name": "a", "mountPath": "relative"}]}},
        {"worker": {"fetch": {"limits": {"cpu": "1"}}}},
    ],
    ids=str,
)
def test_what_kubernetes_would_refuse_is_refused(values: Object) -> None:
    with pytest.raises(RenderError, match=r"(?s)values don't meet.*(nothing|mountPath|limits)"):
        render(values)


@pytest.mark.parametrize("name", VALUE_SETS)
def test_the_operator_never_takes_over_the_list_of_groups(name: str) -> None:
    """
    KubeRay's operator updates `scaleStrategy`. If no other manager owns it, the operator becomes an owner of the whole
    list of groups, with which every later `helm upgrade` (server-side, with Helm 4) is in conflict.
    """
    for group in render(name).one("RayService")["spec"]["rayClusterConfig"]["workerGroupSpecs"]:
        assert group["scaleStrategy"] == {}
