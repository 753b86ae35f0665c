"""Rendered configuration loads through the services' models and contains what the chart knows."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import BaseModel

from chartvalues.filled import filled, model_of
from tests.chart.rendering import VALUE_SETS, Rendered, render
from tlt_common.config.loader import load

SERVICES = ("gateway", "coordinator", "cache", "tuner")
SAMPLE = {
    "metadata.name": "pod-1",
    "metadata.namespace": "rollouts",
    "status.podIP": "10.0.0.7",
    "secret": "redis://:secret@redis:6379/0",
}


def loaded(rendered: Rendered, service: str, tmp_path: Path) -> BaseModel:
    file = tmp_path / "config.yaml"
    file.write_text(rendered.one("ConfigMap", service)["data"]["config.yaml"])
    return load(model_of(service), service, file=file, environment=environment(rendered, service), settings=())


def environment(rendered: Rendered, component: str) -> dict[str, str]:
    found = {}
    for entry in rendered.pods[component].main["env"]:
        source = entry.get("valueFrom", {})
        path = source.get("fieldRef", {}).get("fieldPath", "secret")
        found[entry["name"]] = entry.get("value") or SAMPLE[path]
    return found


@pytest.mark.parametrize("service", SERVICES)
@pytest.mark.parametrize("name", VALUE_SETS)
def test_services_accept_their_configuration(name: str, service: str, tmp_path: Path) -> None:
    config = loaded(render(name), service, tmp_path)
    assert str(getattr(config, "listen", "")).startswith("[::]:")
    assert getattr(config, "metrics_port", None) == 9090
    assert (getattr(config, "tls", None) is None) is (name == "plain")


def test_settings_of_trainers_become_keys_joined_by_dots() -> None:
    args = render({"worker": {"trainer": {"publish": {"every_tokens": 262144}, "nice": 5}}}).serve["applications"][0][
        "args"
    ]
    assert args["trainer"] == {"publish.every_tokens": 262144, "nice": 5}


def test_gateways_know_the_coordinator_their_name_and_their_spool() -> None:
    rendered = render("sixteen-nodes")
    assert rendered.config("gateway")["coordinator"] == "rl-tlt-coordinator.rollouts.svc:7701"
    assert rendered.config("gateway")["spool_shared"] is True
    assert environment(rendered, "gateway")["TLT_GATEWAY_GATEWAY_ID"] == "pod-1"
    mounts = {mount["name"]: mount["mountPath"] for mount in rendered.pods["worker"].main["volumeMounts"]}
    assert mounts["spool"] == rendered.config("gateway")["spool_dir"]
    assert render().config("gateway")["spool_shared"] is False


def test_all_services_know_the_collector_of_traces() -> None:
    endpoint, rendered = "http://collector.observability.svc:4317", render("sixteen-nodes")
    assert [rendered.config(service)["traces"] for service in SERVICES] == [endpoint] * len(SERVICES)
    assert rendered.serve["applications"][0]["args"]["worker"]["traces"] == endpoint
    assert "traces" not in render().config("gateway")


def test_the_coordinator_keeps_its_state_in_the_cluster(tmp_path: Path) -> None:
    settings: Any = loaded(render(), "coordinator", tmp_path)
    assert settings.kubernetes.namespace == "rollouts"
    assert settings.kubernetes.pod == "pod-1"
    assert settings.kubernetes.config_map == "rl-tlt-coordinator-state"
    assert "coordinator-state" not in render().of("ConfigMap"), (
        "the coordinator creates it; Helm would own what it holds"
    )


@pytest.mark.parametrize("service", ["cache", "tuner"])
def test_the_url_of_redis_comes_from_a_secret(service: str, tmp_path: Path) -> None:
    settings: Any = loaded(render("tls-external-redis"), service, tmp_path)
    assert settings.redis.get_secret_value() == SAMPLE["secret"]
    variable = f"TLT_{service.upper()}_REDIS"
    entry = {entry["name"]: entry for entry in render("tls-external-redis").pods[service].main["env"]}
    assert entry[variable]["valueFrom"] == {"secretKeyRef": {"name": "redis", "key": "url"}}
    own = {entry["name"]: entry for entry in render().pods[service].main["env"]}
    assert own[variable]["valueFrom"] == {"secretKeyRef": {"name": "rl-tlt-redis", "key": "url"}}


@pytest.mark.parametrize("service", ["cache", "tuner"])
def test_releases_that_share_a_redis_have_keys_of_their_own(service: str, tmp_path: Path) -> None:
    settings: Any = loaded(render("tls-external-redis"), service, tmp_path)
    assert settings.fleet == "rollouts/rl-tlt"


@pytest.mark.parametrize("service", [*SERVICES, "worker", "trainer"])
def test_keys_filled_in_by_the_chart_exist(service: str) -> None:
    everywhere = {"listen", "metrics_port", "metrics_host", "port_file", "tls", "tokens", "drain_s"}
    own = {key.partition(".")[0] for key in filled(service)} - everywhere
    assert own <= model_of(service).model_fields.keys()


@pytest.mark.parametrize("service", SERVICES)
def test_a_new_configuration_replaces_pods(service: str) -> None:
    first = render().pods[service].metadata["annotations"]["checksum/config"]
    other = render({service: {"config": {"log_level": "debug"}}}).pods[service].metadata["annotations"]
    assert first != other["checksum/config"]


def test_configuration_is_mounted_at_the_path_services_read() -> None:
    for service in SERVICES:
        pod = render().pods[service]
        assert pod.main["command"] == ["tlt", "serve", service, "--config", "/etc/tlt/config.yaml"]
        mount = next(mount for mount in pod.main["volumeMounts"] if mount["mountPath"] == "/etc/tlt")
        volume = next(volume for volume in pod.spec["volumes"] if volume["name"] == mount["name"])
        assert {"configMap": {"name": f"rl-tlt-{service}"}} in volume["projected"]["sources"]
        assert yaml.safe_load(render().one("ConfigMap", service)["data"]["config.yaml"])


@pytest.mark.parametrize(
    ("quantity", "size"),
    [("64Gi", 64 * 2**30), ("1.5Ti", 3 * 2**39), ("200G", 200 * 10**9), ("1048576", 2**20), ("500Mi", 500 * 2**20)],
)
def test_services_know_the_size_at_which_the_kubelet_evicts_them(quantity: str, size: int) -> None:
    rendered = render({"gateway": {"spool": {"size": quantity}}, "worker": {"scratch": quantity}})
    assert rendered.config("gateway")["spool_bytes"] == size
    assert rendered.serve["applications"][0]["args"]["worker"]["spool_bytes"] == size
    assert "spool_bytes" not in render("sixteen-nodes").config("gateway"), "a claim is a file system of its own"
