"""The stand-ins' pure parts: pods as KubeRay 1.7 makes them, rules as NetworkPolicies mean them."""

from typing import Any

import pytest

from tests.cluster.kube.netpol import ruleset, selects
from tests.fakes.ray_pods import Cluster, head_pod, wanted_workers, worker_pod
from tests.fakes.ray_services import RayServiceError, cluster_head_service, head_service, serve_service
from tests.fakes.ray_start import quantity, start_command

TEMPLATE: dict[str, Any] = {
    "metadata": {"labels": {"app.kubernetes.io/name": "tlt", "ray.io/group": "mine"}},
    "spec": {
        "containers": [
            {
                "name": "ray",
                "image": "image:1",
                "env": [{"name": "RAY_PORT", "value": "1"}],
                "resources": {"limits": {"cpu": "1500m", "memory": "1Gi", "nvidia.com/gpu": 2}},
            }
        ]
    },
}
GROUP = {"groupName": "workers", "replicas": 3, "minReplicas": 1, "maxReplicas": 2, "template": TEMPLATE}
CLUSTER = Cluster(
    name="rs-abcde",
    namespace="space",
    uid="u",
    spec={"headGroupSpec": {"rayStartParams": {"num-cpus": "0"}, "template": TEMPLATE}, "workerGroupSpecs": [GROUP]},
)
ADDRESS = "rs-abcde-head-svc.space.svc.cluster.local"


def environment(pod: dict[str, Any]) -> dict[str, str]:
    return {entry["name"]: entry.get("value", "") for entry in pod["spec"]["containers"][0]["env"]}


def test_ray_is_started_as_kuberay_starts_it() -> None:
    limits = {"cpu": "1500m", "memory": "1Gi", "nvidia.com/gpu": 2}
    start = start_command("head", {"no-monitor": "true", "log-color": "false"}, {"limits": limits})
    flags = "--block --dashboard-agent-listen-port=52365 --log-color=false --memory=1073741824"
    assert start == f"ray start --head {flags} --metrics-export-port=8080 --no-monitor --num-cpus=2 --num-gpus=2"


@pytest.mark.parametrize(("text", "number"), [("100m", 1), ("2", 2), ("1.5", 2), ("1Ki", 1024), ("2M", 2_000_000)])
def test_quantities_are_rounded_up(text: str, number: int) -> None:
    assert quantity(text) == number


def test_a_worker_waits_for_the_head_and_knows_its_address() -> None:
    pod = worker_pod(CLUSTER, GROUP)
    assert ADDRESS in pod["spec"]["initContainers"][0]["args"][0]
    found = environment(pod)
    assert (found["FQ_RAY_IP"], found["RAY_IP"]) == (ADDRESS, "rs-abcde-head-svc")
    assert found["RAY_ADDRESS"] == f"{ADDRESS}:6379"
    assert found["RAY_PORT"] == "1"  # the template's own value stays
    assert pod["metadata"]["labels"]["ray.io/group"] == "workers"
    assert pod["metadata"]["labels"]["app.kubernetes.io/name"] == "tlt"


def test_the_head_is_its_own_address_and_templates_stay_as_they_were() -> None:
    pod = head_pod(CLUSTER)
    assert environment(pod)["RAY_ADDRESS"] == "127.0.0.1:6379"
    assert "initContainers" not in pod["spec"]
    assert "volumes" not in TEMPLATE["spec"]


def test_replicas_stay_within_their_bounds() -> None:
    assert wanted_workers(GROUP) == 2
    assert wanted_workers({**GROUP, "suspend": True}) == 0


def test_a_renamed_head_is_found_by_the_service_of_its_cluster_alone() -> None:
    service = {"metadata": {"name": "rs", "uid": "u"}}
    assert cluster_head_service(CLUSTER)["spec"]["selector"]["app.kubernetes.io/name"] == "tlt"
    assert head_service(service, CLUSTER)["spec"]["selector"]["app.kubernetes.io/name"] == "kuberay"


def test_a_head_without_a_serve_port_is_refused() -> None:
    container = {**TEMPLATE["spec"]["containers"][0], "ports": [{"name": "dashboard", "containerPort": 8265}]}
    head = {"template": {"spec": {"containers": [container]}}}
    closed = Cluster(name="a", namespace="b", uid="u", spec={"headGroupSpec": head})
    with pytest.raises(RayServiceError, match="serve"):
        serve_service({"metadata": {"name": "rs", "uid": "u"}}, closed)


def pod(name: str, ip: str, **labels: str) -> dict[str, Any]:
    ports = [{"name": "grpc", "containerPort": 7700}]
    spec = {"containers": [{"name": "main", "ports": ports}]}
    meta = {"name": name, "namespace": "a", "labels": labels}
    return {"metadata": meta, "spec": spec, "status": {"podIP": ip, "phase": "Running"}}


def test_a_policy_becomes_a_chain_that_ends_in_drop() -> None:
    spec = {
        "podSelector": {"matchLabels": {"app": "server"}},
        "policyTypes": ["Ingress"],
        "ingress": [{"from": [{"podSelector": {"matchLabels": {"app": "client"}}}], "ports": [{"port": "grpc"}]}],
    }
    policy = {"metadata": {"namespace": "a"}, "spec": spec}
    pods = [pod("s", "10.0.0.1", app="server"), pod("c", "10.0.0.2", app="client"), pod("x", "10.0.0.3")]
    rules = ruleset([policy], pods, {"a": {}}).splitlines()
    chain = rules.index("  chain ingress-0 {")
    assert rules[chain + 1 : chain + 3] == ["    ip saddr { 10.0.0.2 } tcp dport 7700 return", "    drop"]
    assert [rule for rule in rules if "jump" in rule] == ["    ip daddr 10.0.0.1 jump ingress-0"]


@pytest.mark.parametrize(
    ("selector", "matches"),
    [
        (None, False),
        ({}, True),
        ({"matchExpressions": [{"key": "app", "operator": "In", "values": ["a", "b"]}]}, True),
        ({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["a"]}]}, False),
        ({"matchExpressions": [{"key": "other", "operator": "DoesNotExist"}]}, True),
        ({"matchLabels": {"app": "b"}}, False),
    ],
)
def test_selectors_mean_what_kubernetes_means(selector: dict[str, Any] | None, *, matches: bool) -> None:
    assert selects(selector, {"app": "a"}) == matches
