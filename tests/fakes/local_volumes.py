"""
A stand-in for a storage driver: serves claims of one StorageClass with `local` volumes on one node.

    python -m tests.fakes.local_volumes KUBECONFIG FOLDER CLASS NODE

A `local` volume is a directory of the host. Unlike a `hostPath`, it honors the pods' fsGroup, as real drivers do, and
any number of pods may mount it, whatever access mode was requested.
"""

import argparse
import shutil
import sys
import time
from pathlib import Path
from typing import Any, Never

from tests.cluster.kube.rest import Rest

POLL_S = 0.3
CLAIMS, VOLUMES = "/api/v1/persistentvolumeclaims", "/api/v1/persistentvolumes"


def volume(claim: dict[str, Any], folder: Path, node: str) -> dict[str, Any]:
    """Return the volume for a claim, already bound to it."""
    meta, spec = claim["metadata"], claim["spec"]
    on_node = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": f"pvc-{meta['uid']}"},
        "spec": {
            "storageClassName": spec["storageClassName"],
            "capacity": {"storage": spec["resources"]["requests"]["storage"]},
            "accessModes": spec["accessModes"],
            "volumeMode": "Filesystem",
            "persistentVolumeReclaimPolicy": "Delete",
            "claimRef": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "namespace": meta["namespace"],
                "name": meta["name"],
                "uid": meta["uid"],
            },
            "local": {"path": str(folder / f"pvc-{meta['uid']}")},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [on_node]}]}},
        },
    }


def reconcile(api: Rest, folder: Path, storage_class: str, node: str) -> None:
    """Create the requested volumes; delete released ones with their contents."""
    volumes = {found["metadata"]["name"]: found for found in api.items(VOLUMES)}
    for claim in api.items(CLAIMS):
        mine = claim["spec"].get("storageClassName") == storage_class and not claim["spec"].get("volumeName")
        name = f"pvc-{claim['metadata']['uid']}"
        if mine and name not in volumes and "deletionTimestamp" not in claim["metadata"]:
            (folder / name).mkdir(exist_ok=True)
            api.create(VOLUMES, volume(claim, folder, node))
    for name, found in volumes.items():
        mine = found["spec"].get("storageClassName") == storage_class
        # A deleted claim leaves its volume Released; without a driver, the controller may set it to Failed.
        if mine and found["status"].get("phase") in {"Released", "Failed"}:
            api.delete(f"{VOLUMES}/{name}")
            shutil.rmtree(folder / name, ignore_errors=True)


def serve(api: Rest, folder: Path, storage_class: str, node: str) -> Never:
    while True:
        try:
            reconcile(api, folder, storage_class, node)
        except OSError as error:  # the API server is starting or stopping
            sys.stderr.write(f"{error}\n")
        time.sleep(POLL_S)


if __name__ == "__main__":
    cli = argparse.ArgumentParser(description=(__doc__ or "").strip().splitlines()[0])
    cli.add_argument("kubeconfig", type=Path)
    cli.add_argument("folder", type=Path)
    cli.add_argument("storage_class")
    cli.add_argument("node")
    chosen = cli.parse_args()
    serve(Rest(chosen.kubeconfig), chosen.folder, chosen.storage_class, chosen.node)
