"""Clusters that lack an operator: what the chart says there, and what it leaves out."""

import time
from collections.abc import Iterator

import pytest
import yaml

from tests.cluster.conftest import Seconds
from tests.cluster.eventually import eventually
from tests.cluster.kube import kuberay
from tests.cluster.kube.binaries import missing, missing_for_control_plane
from tests.cluster.kube.client import Client
from tests.cluster.kube.commands import CommandError
from tests.cluster.kube.control_plane import ControlPlane
from tests.cluster.release import install, objects

ISSUER = "tls.certManager.issuer.name=ca"
ROUTE = ("gateway.grpcRoute.enabled=true", "gateway.grpcRoute.parentRefs[0].name=public")
LACKING = {
    "Prometheus operator, PodMonitor": (
        ["monitoring.podMonitors.enabled=true"],
        "install the Prometheus operator, or set monitoring.podMonitors.enabled to auto or false",
    ),
    "Prometheus operator, PrometheusRule": (
        ["monitoring.rules.enabled=true"],
        "install the Prometheus operator, or set monitoring.rules.enabled to auto or false",
    ),
    "cert-manager": (["tls.mode=certManager", ISSUER], "install it, or set tls.mode to generated"),
    "Gateway API": (list(ROUTE), "install Gateway API, or set gateway.grpcRoute.enabled to false"),
}


@pytest.fixture(scope="module")
def bare(seconds: Seconds) -> Iterator[ControlPlane]:
    """A control plane without any custom resources."""
    if absent := missing_for_control_plane() or missing("helm"):
        pytest.skip(absent)
    with ControlPlane() as running:
        seconds["bare control plane"] = running.seconds
        yield running


def refused(ns: Client, settings: list[str]) -> str:
    """What Helm says; nothing is installed."""
    before = objects(ns)
    with pytest.raises(CommandError) as caught:
        install(ns, "plain", *settings)
    assert objects(ns) == before
    assert not ns.helm("list", "--short").strip()
    return str(caught.value)


def test_each_missing_operator_is_named_with_the_way_out(bare: ControlPlane, seconds: Seconds) -> None:
    began = time.monotonic()
    ns = bare.inside("default")
    assert "helm install kuberay-operator" in refused(ns, [])
    bare.apply(older := next(yaml.safe_load_all(kuberay.STAND_IN.read_text())))
    eventually(lambda: "older than KubeRay 1.6" in refused(ns, []))
    assert older["metadata"]["name"] == "rayservices.ray.io"
    kuberay.install_definitions(bare)
    for settings, said in LACKING.values():
        assert said in refused(ns, settings)
    install(ns, "plain")  # monitoring is auto: without the operator it is left out
    assert len(ns.items("rayservices")) == 1
    seconds["bare control plane"]["all refusals"] = time.monotonic() - began
