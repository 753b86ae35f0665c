"""`helm upgrade` beside KubeRay's own operator, which writes into the RayService that the chart made."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.conftest import Seconds
from tests.cluster.eventually import eventually
from tests.cluster.kube import kuberay
from tests.cluster.kube.binaries import missing, missing_for_control_plane
from tests.cluster.kube.client import Client
from tests.cluster.kube.control_plane import ControlPlane
from tests.cluster.release import install, ray_service


@pytest.fixture(scope="module")
def operated(seconds: Seconds) -> Iterator[ControlPlane]:
    """A control plane with KubeRay's own operator and its definitions; nothing runs in its pods."""
    if absent := missing_for_control_plane() or missing("helm"):
        pytest.skip(absent)
    if not (os.environ.get("KUBERAY_OPERATOR") and os.environ.get("KUBERAY_CRDS")):
        pytest.skip("needs KubeRay's own operator: make cluster-kuberay")
    with ControlPlane(kwok=1) as running:
        seconds["control plane with KubeRay"] = running.seconds
        kuberay.install_definitions(running)
        kuberay.start_real(running, Path(os.environ["KUBERAY_OPERATOR"]))
        yield running


def owners(ns: Client) -> set[str]:
    """Managers that own something in the RayService's spec."""
    managed = ray_service(ns)["metadata"]["managedFields"]
    return {field["manager"] for field in managed if "f:spec" in field.get("fieldsV1", {})}


def test_a_release_is_upgraded_after_the_operator_wrote_into_its_ray_service(operated: ControlPlane) -> None:
    ns = operated.inside("default")
    install(ns, "plain")
    eventually(lambda: "activeServiceStatus" in ray_service(ns).get("status", {}))
    before = ray_service(ns)["metadata"]["name"]
    install(ns, "plain", "gateway.replicas=2")
    eventually(lambda: len(ns.items("rayclusters")) == 1)
    install(ns, "plain", "worker.config.log_level=debug")
    install(ns, "plain", "worker.config.log_level=info")
    assert ray_service(ns)["metadata"]["name"] == before
