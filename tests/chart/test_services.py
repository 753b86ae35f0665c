"""Objects of gateway, coordinator, cache, tuner, Redis and tokens."""

import re
from typing import Any

import pytest
import yaml

from tests.chart.rendering import APIS, CHART, VALUE_SETS, Object, render
from tlt_common.rpc.server import GRACE_S

STANDALONE = [name for name in VALUE_SETS if "mode: external" not in (CHART / "ci" / f"{name}.yaml").read_text()]


@pytest.mark.parametrize(
    ("component", "ports"),
    [
        ("gateway", {"grpc": 7700}),
        ("gateway-metrics", {"metrics": 9090}),
        ("gateway-peers", {"grpc": 7700}),
        ("coordinator", {"grpc": 7701, "http": 7702, "metrics": 9090}),
        ("cache", {"grpc": 7703, "metrics": 9090}),
        ("tuner", {"grpc": 7704, "metrics": 9090}),
        ("redis", {"redis": 6379}),
    ],
)
def test_services_offer_ports_their_pods_have(component: str, ports: dict[str, int]) -> None:
    rendered = render()
    offered = rendered.one("Service", component)["spec"]["ports"]
    assert {port["name"]: port["port"] for port in offered} == ports
    pods = component.removesuffix("-metrics").removesuffix("-peers")
    available = {port["name"] for port in rendered.pods[pods].main["ports"]}
    assert {port["targetPort"] for port in offered} <= available


HTTP = {"gateway": {"http": {"enabled": True}}}


def test_gateways_serve_http_only_if_enabled() -> None:
    plain, rendered = render(), render(HTTP)
    assert "http" not in plain.config("gateway")
    assert rendered.config("gateway")["http"] == {"listen": "[::]:7703", "tokenizer": "/models"}
    (port,) = [port for port in rendered.one("Service", "gateway")["spec"]["ports"] if port["name"] == "http"]
    assert (port["port"], port["targetPort"], port["appProtocol"]) == (7703, "http", "https")
    assert {"name": "http", "containerPort": 7703} in rendered.pods["gateway"].main["ports"]


@pytest.mark.parametrize("source", ["pvc", "hostPath"])
def test_gateways_mount_the_model_as_workers_do_to_read_its_tokenizer(source: str) -> None:
    model = {"source": source, "hostPath": {"path": "/data/model"}, "pvc": {"claim": "model", "path": "sub"}}
    rendered = render({**HTTP, "model": model})
    gateway, worker = rendered.pods["gateway"], rendered.pods["worker"]
    (mount,) = [mount for mount in gateway.main["volumeMounts"] if mount["name"] == "model"]
    assert mount in worker.main["volumeMounts"]
    assert mount["readOnly"]
    (volume,) = [volume for volume in gateway.spec["volumes"] if volume["name"] == "model"]
    assert volume in worker.spec["volumes"]
    assert rendered.config("gateway")["http"]["tokenizer"].startswith(mount["mountPath"])


def test_gateways_without_a_tokenizer_do_not_mount_the_model() -> None:
    http = {"enabled": True, "tokenizer": "none"}
    rendered = render({"gateway": {"http": http}, "model": {"source": "url", "url": {"url": "s3://bucket/model"}}})
    assert rendered.config("gateway")["http"] == {"listen": "[::]:7703"}
    assert "model" not in {volume["name"] for volume in rendered.pods["gateway"].spec["volumes"]}


def test_gateways_find_workers_and_each_other_by_headless_services() -> None:
    rendered = render()
    config = rendered.config("gateway")
    for endpoint, component in ((config["worker_service"], "worker"), (config["peers"][0], "gateway-peers")):
        service = rendered.one("Service", component)
        host = f"{service['metadata']['name']}.{service['metadata']['namespace']}.svc"
        assert endpoint == f"{host}:{service['spec']['ports'][0]['port']}"
        assert service["spec"]["clusterIP"] == "None"
    labels = rendered.pods["worker"].metadata["labels"]
    assert rendered.one("Service", "worker")["spec"]["selector"].items() <= labels.items()


@pytest.mark.parametrize("component", ["coordinator", "tuner"])
def test_there_is_one_of_each_with_a_state_and_a_new_one_waits_for_its_end(component: str) -> None:
    spec = render().one("Deployment", component)["spec"]
    assert (spec["replicas"], spec["strategy"]) == (1, {"type": "Recreate"})
    assert component not in render().of("PodDisruptionBudget"), "it would keep a node from being drained"


@pytest.mark.parametrize("component", ["gateway", "cache"])
def test_drained_nodes_take_one_at_a_time(component: str) -> None:
    assert render().one("PodDisruptionBudget", component)["spec"]["maxUnavailable"] == 1
    assert not render("plain").of("PodDisruptionBudget")


def test_gateways_have_time_to_drain() -> None:
    values = {"gateway": {"drainSeconds": 600}}
    spec = render(values).pods["gateway"].spec
    program, serves_s = spec["containers"][0]["lifecycle"]["preStop"]["exec"]["command"]
    assert program == "sleep"
    assert spec["terminationGracePeriodSeconds"] > int(serves_s) + 600 + GRACE_S
    assert render(values).config("gateway")["drain_s"] == 600


def test_an_upgrade_never_leaves_fewer_gateways() -> None:
    strategy = render().one("Deployment", "gateway")["spec"]["strategy"]
    assert strategy == {"rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}}


def test_gateways_scale_by_cpu_and_by_metrics_of_ones_own() -> None:
    rendered = render("tls-external-redis")
    spec = rendered.one("HorizontalPodAutoscaler")["spec"]
    assert (spec["minReplicas"], spec["maxReplicas"]) == (2, 8)
    assert [metric["type"] for metric in spec["metrics"]] == ["Resource", "Pods"]
    assert spec["scaleTargetRef"]["name"] == "rl-tlt-gateway"
    assert "replicas" not in rendered.one("Deployment", "gateway")["spec"]
    assert render().one("Deployment", "gateway")["spec"]["replicas"] == 1


def test_the_gateway_api_finds_the_gateway() -> None:
    rendered = render("tls-external-redis")
    spec = rendered.one("GRPCRoute")["spec"]
    assert spec["hostnames"] == ["rollouts.example.org"]
    assert spec["rules"] == [{"backendRefs": [{"name": "rl-tlt-gateway", "port": 7700}]}]
    (parent,) = spec["parentRefs"]
    assert parent["name"] == "public"
    validation = rendered.one("BackendTLSPolicy")["spec"]["validation"]
    assert validation["hostname"] == "gateway.tlt.internal"
    assert validation["caCertificateRefs"] == [{"group": "", "kind": "ConfigMap", "name": "our-ca"}]


def test_a_generated_ca_is_what_the_gateway_api_checks_by() -> None:
    values: Object = {"gateway": {"grpcRoute": {"enabled": True, "parentRefs": [{"name": "public"}]}}}
    (reference,) = render(values).one("BackendTLSPolicy")["spec"]["validation"]["caCertificateRefs"]
    assert reference["name"] in {f"rl-tlt-{name}" for name in render(values).of("ConfigMap")}
    assert not render({**values, "tls": {"mode": "off"}}).of("BackendTLSPolicy")


def test_an_older_gateway_api_gets_its_own_version() -> None:
    values: Object = {"gateway": {"grpcRoute": {"enabled": True, "parentRefs": [{"name": "public"}]}}}
    policy = "gateway.networking.k8s.io/v1/BackendTLSPolicy"
    older = [api.replace("/v1/", "/v1alpha3/") if api == policy else api for api in APIS]
    assert render(values, apis=older).one("BackendTLSPolicy")["apiVersion"] == "gateway.networking.k8s.io/v1alpha3"
    assert render(values).one("BackendTLSPolicy")["apiVersion"] == "gateway.networking.k8s.io/v1"


def test_an_ingress_speaks_grpc_to_the_gateway() -> None:
    ingress = render("air-gapped").one("Ingress", "gateway")
    assert ingress["metadata"]["annotations"]["nginx.ingress.kubernetes.io/backend-protocol"] == "GRPCS"
    assert ingress["spec"]["tls"] == [{"secretName": "rollouts-tls", "hosts": ["rollouts.internal"]}]
    (rule,) = ingress["spec"]["rules"]
    assert rule["http"]["paths"][0]["backend"]["service"] == {"name": "rl-tlt-gateway", "port": {"name": "grpc"}}


def test_without_tokens_the_page_answers_to_the_names_of_its_ingress() -> None:
    named = {"enabled": True, "hosts": ["fleet.example"], "tlsSecret": "x"}
    for auth, hosts in ((True, None), (False, ["fleet.example"])):
        rendered = render({"coordinator": {"ingress": named}, "auth": {"enabled": auth}})
        assert rendered.config("coordinator").get("http_hosts") == hosts


def test_an_ingress_speaks_http_to_the_coordinators_page() -> None:
    ingress = render("air-gapped").one("Ingress", "coordinator")
    assert ingress["metadata"]["annotations"]["nginx.ingress.kubernetes.io/backend-protocol"] == "HTTPS"
    assert ingress["spec"]["tls"] == [{"secretName": "fleet-tls", "hosts": ["fleet.internal"]}]
    (rule,) = ingress["spec"]["rules"]
    assert rule["http"]["paths"][0]["backend"]["service"] == {"name": "rl-tlt-coordinator", "port": {"name": "http"}}


def test_a_load_balancer_can_be_requested() -> None:
    service = render("air-gapped").one("Service", "gateway")
    assert service["spec"]["type"] == "LoadBalancer"
    assert service["metadata"]["annotations"] == {"service.example.org/internal": "true"}
    assert [port["name"] for port in service["spec"]["ports"]] == ["grpc"]


def test_one_tuner_at_a_time() -> None:
    spec = render().one("Deployment", "tuner")["spec"]
    assert (spec["replicas"], spec["strategy"]) == (1, {"type": "Recreate"})


@pytest.mark.parametrize("name", STANDALONE)
def test_redis_persists_nothing_and_has_memory_for_the_cache_budget(name: str) -> None:
    rendered = render(name)
    options = dict(line.split(maxsplit=1) for line in settings(rendered.one("Secret", "redis")))
    assert options["appendonly"] == "no"
    assert options["maxmemory-policy"] == "noeviction"
    budget = rendered.config("cache").get("budget_bytes", 512 * 2**20)
    assert int(options["maxmemory"]) == 2 * budget + 64 * 2**20
    limit = rendered.pods["redis"].main["resources"]["limits"]["memory"]
    units = {"Mi": 2**20, "Gi": 2**30}
    assert int(options["maxmemory"]) < int(limit[:-2]) * units[limit[-2:]]


def settings(secret: Object) -> list[str]:
    lines = secret["stringData"]["redis.conf"].splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def test_the_url_of_redis_has_its_password_and_address() -> None:
    secret = render().one("Secret", "redis")["stringData"]
    assert re.fullmatch(r"[A-Za-z0-9]{32}", secret["password"])
    assert secret["url"] == f"rediss://:{secret['password']}@rl-tlt-redis.rollouts.svc:6379/0"
    assert f"requirepass {secret['password']}" in settings(render().one("Secret", "redis"))


def test_redis_accepts_another_command() -> None:
    pod = render({"redis": {"command": ["/opt/redis", "--loglevel", "warning"]}}).pods["redis"]
    assert pod.main["command"] == ["/opt/redis", "--loglevel", "warning", "/etc/redis/redis.conf"]


def test_an_external_redis_replaces_the_charts_own() -> None:
    rendered = render("sixteen-nodes")
    for kind in ("StatefulSet", "Service", "Secret", "ServiceAccount"):
        assert "redis" not in rendered.of(kind)


def test_tokens_are_made_with_the_scopes_of_trainers_operators_and_browsers() -> None:
    secret = render().one("Secret", "tokens")["stringData"]
    tokens = {entry["name"]: entry for entry in yaml.safe_load(secret["tokens.yaml"])["tokens"]}
    assert tokens["trainer"]["scopes"] == ["generate", "update_weights"]
    assert tokens["operator"]["scopes"] == ["admin"]
    assert tokens["observer"]["scopes"] == ["observe"]
    for name, key in (("trainer", "token"), ("operator", "admin-token"), ("observer", "observe-token")):
        assert tokens[name]["token"] == secret[key]
    assert len({entry["token"] for entry in tokens.values()}) == 3
    assert len(secret["token"]) == 40


@pytest.mark.parametrize("component", ["gateway", "coordinator"])
def test_tokens_are_mounted_where_they_are_checked(component: str) -> None:
    rendered = render("tls-external-redis")
    assert rendered.config(component)["tokens"] == "/etc/tlt/tokens/tokens.yaml"
    etc: Any = next(volume for volume in rendered.pods[component].spec["volumes"] if volume["name"] == "etc")
    item = {"key": "tokens.yaml", "path": "tokens/tokens.yaml"}
    assert {"secret": {"name": "tokens", "items": [item]}} in etc["projected"]["sources"]
    assert "tokens" not in rendered.of("Secret")
    assert "tokens" not in render("plain").config(component)


def test_what_the_coordinator_may_change_of_pods_is_limited_where_the_cluster_can() -> None:
    (policy,) = render().of("ValidatingAdmissionPolicy").values()
    (binding,) = render().of("ValidatingAdmissionPolicyBinding").values()
    account = "system:serviceaccount:rollouts:rl-tlt-coordinator"
    assert policy["spec"]["matchConditions"][0]["expression"] == f"request.userInfo.username == '{account}'"
    assert binding["spec"]["policyName"] == policy["metadata"]["name"]
    assert binding["spec"]["validationActions"] == ["Deny"]
    assert "ValidatingAdmissionPolicy" not in {item["kind"] for item in render(apis=("ray.io/v1/RayService",)).objects}
    told = render({"coordinator": {"admissionPolicy": False}})
    assert not told.of("ValidatingAdmissionPolicy")
