"""KubeRay on a real cluster: its custom resources, and an operator that makes them run."""

import json
import os
import sys
from pathlib import Path

from tests.cluster.kube.control_plane import ControlPlane
from tests.cluster.kube.network import GATEWAY
from tests.cluster.kube.real_cluster import RealCluster

STAND_IN = Path(__file__).parents[2] / "fakes" / "ray_definitions.yaml"
KINDS = {"rayclusters", "rayservices", "raycronjobs"}


def install_definitions(cluster: ControlPlane) -> None:
    """Install KubeRay's own definitions from the folder `$KUBERAY_CRDS`, or stand-ins without schemas."""
    folder = os.environ.get("KUBERAY_CRDS")
    cluster.apply(*(sorted(Path(folder).glob("ray.io_*.yaml")) if folder else [STAND_IN]))
    cluster.processes.wait("RayServices", lambda: _served(cluster) >= KINDS)


def start_operator(cluster: RealCluster) -> None:
    """Start the operator that `$KUBERAY_OPERATOR` names (a binary of KubeRay 1.6 or later), or our stand-in for it."""
    install_definitions(cluster)
    if named := os.environ.get("KUBERAY_OPERATOR"):
        start_real(cluster, Path(named), resolver=f"nameserver {GATEWAY}\n")
    else:
        arguments = ("-m", "tests.fakes.rayservice_operator", cluster.kubeconfig)
        cluster.processes.spawn(Path(sys.executable), *arguments, name="rayservice-operator")


def _served(cluster: ControlPlane) -> set[str]:
    return {resource["name"] for resource in json.loads(cluster.get("/apis/ray.io/v1"))["resources"]}


def start_real(cluster: ControlPlane, operator: Path, *, resolver: str = "") -> None:
    """
    Start KubeRay's own operator.

    It finds Ray heads by name. On a real cluster it gets the cluster's DNS as its own, in a mount namespace of its own.
    """
    flags = ("--leader-election-namespace=default", "--metrics-addr=127.0.0.1:0")
    addresses = ("--health-probe-bind-address=127.0.0.1:0", f"--kubeconfig={cluster.kubeconfig}")
    if not resolver:
        cluster.processes.spawn(operator, *flags, *addresses, name="kuberay-operator")
        return
    named = cluster.folder / "resolv.conf"
    named.write_text(resolver)
    script = f'mount --bind {named} /etc/resolv.conf && exec "$@"'
    command = ("--mount", "sh", "-c", script, "sh", operator, *flags, *addresses)
    cluster.processes.spawn(Path("/usr/bin/unshare"), *command, name="kuberay-operator")
