"""PodMonitors, rules and dashboards: rendered if the cluster has their kinds, or on request."""

import json
from pathlib import Path

import pytest
import yaml

from tests.chart.rendering import APIS, CHART, render
from tlt_worker.config import WorkerConfig
from tlt_worker.lending.trainer import settings_of

COMPONENTS = {"gateway", "coordinator", "cache", "tuner", "worker"}
ALERTS = sorted(path.name for path in (CHART / "alerts").glob("*.yaml"))
DASHBOARDS = sorted(path.name for path in (CHART / "dashboards").glob("*.json"))


def test_every_component_is_scraped_and_named_by_its_certificate() -> None:
    monitors = render().of("PodMonitor")
    assert set(monitors) == COMPONENTS
    for component, monitor in monitors.items():
        endpoints = monitor["spec"]["podMetricsEndpoints"]
        # A worker's spot trainer is a separate process with the worker's certificate.
        expected = ["metrics", "trainer-metrics"] if component == "worker" else ["metrics"]
        assert [endpoint["port"] for endpoint in endpoints] == expected
        assert set(expected) <= {port["name"] for port in render().pods[component].main["ports"]}
        for endpoint in endpoints:
            assert endpoint["scheme"] == "https"
            assert endpoint["tlsConfig"]["serverName"] == f"{component}.tlt.internal"
            assert endpoint["tlsConfig"]["ca"]["secret"] == {"name": f"rl-tlt-{component}-tls", "key": "ca.crt"}
            assert [rule["targetLabel"] for rule in endpoint["relabelings"]] == ["release"]


def test_a_trainer_shows_its_metrics_on_the_port_that_is_scraped(tmp_path: Path) -> None:
    config = WorkerConfig(model=tmp_path, listen="0.0.0.0:7705", metrics_port=9090)
    (port,) = [port for port in render().pods["worker"].main["ports"] if port["name"] == "trainer-metrics"]
    assert settings_of(config, tmp_path)["metrics_port"] == str(port["containerPort"])


def test_without_certificates_metrics_are_plain() -> None:
    for monitor in render("plain").of("PodMonitor").values():
        assert not {"scheme", "tlsConfig"} & monitor["spec"]["podMetricsEndpoints"][0].keys()


def test_labels_by_which_a_prometheus_chooses_are_added() -> None:
    monitors = render("tls-external-redis").of("PodMonitor").values()
    assert all(monitor["metadata"]["labels"]["release"] == "prometheus" for monitor in monitors)


def test_a_cluster_without_the_operator_gets_neither_monitors_nor_rules() -> None:
    rendered = render(apis=[api for api in APIS if "monitoring" not in api])
    assert not rendered.of("PodMonitor")
    assert not rendered.of("PrometheusRule")


@pytest.mark.skipif(not ALERTS, reason="no alerts yet")
def test_every_alert_is_in_the_rule_as_it_is_written() -> None:
    (group,) = render().one("PrometheusRule")["spec"]["groups"]
    written = [yaml.safe_load((CHART / "alerts" / name).read_text()) for name in ALERTS]
    assert group["rules"] == written


@pytest.mark.skipif(not ALERTS, reason="no alerts yet")
def test_runbooks_get_a_url_where_they_are_served() -> None:
    (group,) = render("tls-external-redis").one("PrometheusRule")["spec"]["groups"]
    for rule in group["rules"]:
        assert rule["annotations"]["runbook_url"] == f"https://runbooks.example.org/{rule['annotations']['runbook']}"


def test_every_dashboard_is_found_by_the_sidecar() -> None:
    found: dict[str, object] = {}
    for config in render("tls-external-redis").of("ConfigMap").values():
        if config["metadata"]["labels"].get("grafana_dashboard") == "1":
            assert config["metadata"]["annotations"] == {"grafana_folder": "Rollouts"}
            found |= {name: json.loads(text) for name, text in config["data"].items()}
    assert found == {name: json.loads((CHART / "dashboards" / name).read_text()) for name in DASHBOARDS}


def test_dashboards_can_be_left_out() -> None:
    assert not [name for name in render("plain").of("ConfigMap") if "dashboard" in name]
