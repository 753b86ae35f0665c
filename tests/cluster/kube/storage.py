"""A default StorageClass for the real node, served by a stand-in for a storage driver."""

import sys
from pathlib import Path

from tests.cluster.kube.client import Client
from tests.cluster.kube.control_plane import ControlPlane

CLASS = "stand-in"


def start(cluster: ControlPlane, node: str) -> None:
    """Serve claims with folders of this host below the cluster's own; they go when the cluster goes."""
    folder = cluster.folder / "volumes"
    folder.mkdir()
    cluster.apply(
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": CLASS, "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
            "provisioner": f"tlt.test/{CLASS}",
            "reclaimPolicy": "Delete",
            "volumeBindingMode": "Immediate",
        }
    )
    arguments = ("-m", "tests.fakes.local_volumes", cluster.kubeconfig, folder, CLASS, node)
    cluster.processes.spawn(Path(sys.executable), *arguments, name="local-volumes")


def folder_of(cluster: ControlPlane, inside: Client, claim: str) -> Path:
    """Where a claim's data lies on this host, once it is bound: tests put models there, and look at what pods wrote."""
    inside.kubectl("wait", "--for=jsonpath={.status.phase}=Bound", f"pvc/{claim}", "--timeout=30s")
    uid = inside.json_of("get", "pvc", claim)["metadata"]["uid"]
    return cluster.folder / "volumes" / f"pvc-{uid}"
