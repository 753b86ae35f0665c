"""Custom resources of all operators that the chart knows, as these operators release them."""

from pathlib import Path

from tests.cluster.eventually import eventually
from tests.cluster.kube import kuberay, schemas
from tests.cluster.kube.binaries import DEFINITIONS, binary
from tests.cluster.kube.control_plane import ControlPlane

KINDS = (
    "rayservice-ray-v1",
    "podmonitor-monitoring-v1",
    "prometheusrule-monitoring-v1",
    "certificate-cert-manager-v1",
    "grpcroute-gateway-v1",
    "backendtlspolicy-gateway-v1",
)


def install(cluster: ControlPlane, folder: Path) -> None:
    """Install them, and write kubeconform's schemas of this cluster into a folder."""
    kuberay.install_definitions(cluster)
    cluster.apply(*sorted(binary(DEFINITIONS).glob("*.yaml")))
    cluster.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=30s")
    eventually(lambda: _written(cluster, folder))  # the server tells of new kinds a little later


def _written(cluster: ControlPlane, folder: Path) -> bool:
    schemas.write(cluster, folder)
    return all((folder / f"{kind}.json").exists() for kind in KINDS)
