"""NetworkPolicies: only the listed connections are open, at both ends."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.chart.rendering import VALUE_SETS, Object, Rendered, render

PROTECTED = [name for name in VALUE_SETS if name != "plain"]
INTERNAL = {
    ("gateway", "worker", 7705),
    ("gateway", "coordinator", 7701),
    ("gateway", "gateway", 7700),
    ("worker", "worker", 7705),
    ("worker", "coordinator", 7701),
    ("worker", "cache", 7703),
    ("worker", "tuner", 7704),
    ("cache", "redis", 6379),
    ("tuner", "redis", 6379),
    ("test", "gateway", 7700),
    ("test", "gateway", 9090),
    ("test", "coordinator", 9090),
    ("test", "cache", 9090),
    ("test", "tuner", 9090),
}
TRIED = {("test", "head", 8265)}
"""The test may leave for it, and must not arrive."""
RAY = {(one, other, None) for one in ("head", "worker") for other in ("head", "worker")}


def policies(rendered: Rendered) -> dict[str, Object]:
    return rendered.of("NetworkPolicy")


def component_of(selector: Object) -> list[str]:
    """Return the components of this release that a peer's selector matches."""
    if selector.get("matchLabels", {}).get("app.kubernetes.io/instance") != "rl":
        return []
    (expression,) = selector["matchExpressions"]
    assert (expression["key"], expression["operator"]) == ("app.kubernetes.io/component", "In")
    values: list[str] = expression["values"]
    return values


def connections(rendered: Rendered, direction: str) -> Iterator[tuple[str, str, int | None]]:
    """Yield (from, to, port) as allowed at one end."""
    key, side = ("egress", "to") if direction == "out" else ("ingress", "from")
    for policy in policies(rendered).values():
        own = policy["spec"]["podSelector"]["matchLabels"].get("app.kubernetes.io/component")
        for rule in policy["spec"].get(key, []):
            others = [name for peer in rule[side] for name in component_of(peer.get("podSelector", {}))]
            for other in others:
                for port in rule.get("ports", [{"port": None}]):
                    yield (own, other, port["port"]) if direction == "out" else (other, own, port["port"])


@pytest.mark.parametrize("name", PROTECTED)
def test_components_reach_each_other_over_the_listed_connections_only(name: str) -> None:
    rendered = render(name)
    expected = (
        INTERNAL if "redis" in rendered.pods else {connection for connection in INTERNAL if connection[1] != "redis"}
    )
    assert set(connections(rendered, "out")) == expected | RAY | TRIED
    # The policy for Prometheus also admits the test pod, which may therefore reach workers too.
    assert set(connections(rendered, "in")) == expected | RAY | {("test", "worker", 9090), ("test", "worker", 9091)}


@pytest.mark.parametrize("name", PROTECTED)
def test_everything_else_is_refused_to_every_pod(name: str) -> None:
    rendered = render(name)
    deny = policies(rendered)["default-deny"]["spec"]
    assert deny["policyTypes"] == ["Ingress", "Egress"]
    assert not {"ingress", "egress"} & deny.keys()
    for pod in rendered.pods.values():
        assert deny["podSelector"]["matchLabels"].items() <= pod.metadata["labels"].items()


@pytest.mark.parametrize("name", PROTECTED)
def test_no_policy_opens_a_pod_to_everybody(name: str) -> None:
    for policy in policies(render(name)).values():
        for rule in [*policy["spec"].get("ingress", []), *policy["spec"].get("egress", [])]:
            peers = rule.get("from", rule.get("to"))
            assert peers, policy["metadata"]["name"]
            assert all(peer for peer in peers), policy["metadata"]["name"]


def ingress(values: Any, policy: str) -> Object:
    (rule,) = policies(render(values))[policy]["spec"]["ingress"]
    found: Object = rule
    return found


def egress(values: Any, policy: str) -> Object:
    (rule,) = policies(render(values))[policy]["spec"]["egress"]
    found: Object = rule
    return found


def ports(rule: Object) -> list[int]:
    return [port["port"] for port in rule["ports"]]


CLIENT = {"podSelector": {"matchLabels": {"tlt.dev/client": "true"}}, "namespaceSelector": {}}


def test_trainers_come_in_by_label_or_address() -> None:
    assert ingress(None, "gateway-from-trainers") == {"from": [CLIENT], "ports": [{"protocol": "TCP", "port": 7700}]}
    http = ingress({"gateway": {"http": {"enabled": True}}}, "gateway-from-trainers")
    assert (http["from"], ports(http)) == ([CLIENT], [7700, 7703])
    assert ingress("air-gapped", "gateway-from-trainers")["from"] == [
        {"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.9.0.0/16"]}}
    ]
    assert "gateway-from-trainers" not in policies(render({"networkPolicy": {"trainers": []}}))


def test_ingress_controllers_come_in_where_there_is_an_ingress() -> None:
    named = {"enabled": True, "hosts": ["a.example"], "tlsSecret": "x"}
    page = ingress({"coordinator": {"ingress": named}}, "coordinator-from-ingress")
    assert ports(page) == [7702]
    (peer,) = page["from"]
    (expression,) = peer["namespaceSelector"]["matchExpressions"]
    assert {"ingress-nginx", "traefik"} <= set(expression["values"])
    for values in (
        {"gateway": {"ingress": named}},
        {"gateway": {"grpcRoute": {"enabled": True, "parentRefs": [{"name": "g"}], "hostnames": ["a.example"]}}},
    ):
        assert ports(ingress(values, "gateway-from-ingress")) == [7700]
    assert not {"gateway-from-ingress", "coordinator-from-ingress"} & policies(render(None)).keys()


def test_the_status_page_is_open_to_clients() -> None:
    assert ingress(None, "coordinator-from-status-page") == {
        "from": [CLIENT],
        "ports": [{"protocol": "TCP", "port": 7702}],
    }


@pytest.mark.parametrize("component", ["gateway", "coordinator", "cache", "tuner", "worker"])
def test_prometheus_reads_metrics(component: str) -> None:
    rule = ingress(None, f"{component}-from-prometheus")
    assert ports(rule) == ([9090, 9091] if component == "worker" else [9090])
    namespace = {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}
    assert {"podSelector": {}, "namespaceSelector": namespace} in rule["from"]


def test_the_operator_reaches_the_head() -> None:
    rule = ingress(None, "head-from-kuberay")
    assert ports(rule) == [8265, 8000]
    assert rule["from"] == [
        {
            "podSelector": {"matchLabels": {"app.kubernetes.io/name": "kuberay-operator"}},
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kuberay"}},
        }
    ]


def test_all_pods_reach_dns() -> None:
    rule = egress(None, "dns")
    assert {(port["protocol"], port["port"]) for port in rule["ports"]} == {("UDP", 53), ("TCP", 53)}
    assert rule["to"][0]["namespaceSelector"]["matchLabels"] == {"kubernetes.io/metadata.name": "kube-system"}


def test_only_the_coordinator_calls_the_api_server() -> None:
    values = {"networkPolicy": {"apiServer": [{"cidr": "10.96.0.1/32"}], "apiServerPorts": [6443]}}
    rule = egress(values, "coordinator-to-api-server")
    assert rule["to"] == [{"ipBlock": {"cidr": "10.96.0.1/32", "except": []}}]
    assert ports(rule) == [6443]


def test_workers_reach_storage_if_configured() -> None:
    assert "worker-to-storage" not in policies(render())
    rule = egress("sixteen-nodes", "worker-to-storage")
    assert rule["to"] == [{"ipBlock": {"cidr": "0.0.0.0/0", "except": ["10.0.0.0/8"]}}]
    assert ports(rule) == [443]


@pytest.mark.parametrize("component", ["cache", "tuner"])
def test_cache_and_tuner_reach_an_external_redis(component: str) -> None:
    rule = egress("sixteen-nodes", f"{component}-to-external-redis")
    assert rule["to"] == [{"ipBlock": {"cidr": "10.1.0.0/24", "except": []}}]
    assert ports(rule) == [6379]
    assert f"{component}-to-external-redis" not in policies(render())


def test_services_reach_the_collector_of_traces_when_there_is_one() -> None:
    assert "traces" not in policies(render())
    assert egress("sixteen-nodes", "traces") == {
        "to": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "observability"}}}],
        "ports": [{"protocol": "TCP", "port": 4317}],
    }
    selector = policies(render("sixteen-nodes"))["traces"]["spec"]["podSelector"]
    assert component_of(selector) == ["gateway", "coordinator", "cache", "tuner", "worker"]


def test_policies_can_be_left_out() -> None:
    assert not policies(render("plain"))


def test_process_groups_need_a_permission_of_their_own() -> None:
    assert not [name for name in policies(render({})) if "process-groups" in name]
    peer = {"podSelector": {"matchLabels": {"app": "trainer"}}}
    [policy] = [
        policy
        for name, policy in policies(render({"networkPolicy": {"processGroups": [peer]}})).items()
        if "process-groups" in name
    ]
    spec = policy["spec"]
    assert spec["podSelector"]["matchLabels"]["app.kubernetes.io/component"] == "worker"
    assert spec["ingress"] == [{"from": [peer], "ports": [{"protocol": "TCP", "port": 32768, "endPort": 60999}]}]
    assert spec["egress"] == [{"to": [peer], "ports": [{"protocol": "TCP", "port": 1, "endPort": 65535}]}]
