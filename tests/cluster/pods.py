"""Small pods for tests, as `restricted` admits them."""

import json
from typing import Any

from tests.cluster.kube.client import Client, Object
from tests.cluster.kube.images import PYTHON, USER

CONTAINER_SECURITY = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}
POD_SECURITY = {
    "runAsNonRoot": True,
    "runAsUser": USER,
    "runAsGroup": USER,
    "fsGroup": USER,
    "seccompProfile": {"type": "RuntimeDefault"},
}


def python_pod(name: str, code: str, *, labels: dict[str, str] | None = None, **container: Any) -> Object:
    """A pod that runs Python code once; `container` adds to its container."""
    main = {"name": "main", "image": PYTHON, "command": ["python3", "-c", code], "securityContext": CONTAINER_SECURITY}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels or {}},
        "spec": {
            "terminationGracePeriodSeconds": 1,
            "restartPolicy": "Never",
            "automountServiceAccountToken": False,
            "securityContext": POD_SECURITY,
            "containers": [{**main, **container}],
        },
    }


def with_volumes(pod: Object, volumes: dict[str, Object]) -> Object:
    """The same pod with volumes, each mounted at its path (the key) in every container."""
    named = {path: {"name": path.strip("/").replace("/", "-"), **volume} for path, volume in volumes.items()}
    mounts = [{"name": volume["name"], "mountPath": path} for path, volume in named.items()]
    containers = [{**container, "volumeMounts": mounts} for container in pod["spec"]["containers"]]
    return {**pod, "spec": {**pod["spec"], "containers": containers, "volumes": list(named.values())}}


def finished(ns: Client, name: str) -> str:
    """What a pod printed, once it succeeded; an assertion error with its output when it failed."""
    phases = "--for=jsonpath={.status.phase}=Succeeded"
    try:
        ns.kubectl("wait", phases, f"pod/{name}", "--timeout=60s")
    except Exception as error:
        error.add_note(ns.kubectl("logs", name, "--ignore-errors"))
        error.add_note(json.dumps(ns.json_of("get", "pod", name)["status"]))
        raise
    return ns.kubectl("logs", name)
