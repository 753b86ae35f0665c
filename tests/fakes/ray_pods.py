"""
The pods that KubeRay 1.7's operator creates from a RayCluster's templates.

Part of a stand-in (see `rayservice_operator`). Implemented: names, labels, generated `ray start` commands, environment,
probes, the init container that waits for the head, /dev/shm, Redis for fault tolerance, Ray's token. Not implemented:
autoscaler, TLS, several hosts per replica, the history server.
"""

import copy
import math
from dataclasses import dataclass
from typing import Any

from tests.fakes.ray_probes import add_probes
from tests.fakes.ray_start import AGENT, METRICS, start_command

Object = dict[str, Any]

GCS = 6379
TOKEN_KEY = "auth_token"  # noqa: S105 - a key, no token
SHARED = {"name": "shared-mem", "mountPath": "/dev/shm"}  # noqa: S108 - a path in the pod
BASH = ["/bin/bash", "-c", "--"]
WAIT = """
SECONDS=0
while true; do
  if ray health-check --address {address} > /dev/null 2>&1; then echo "GCS is ready."; break; fi
  echo "$SECONDS seconds elapsed: Waiting for GCS to be ready."
  sleep 5
done
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """A RayCluster: `spec` is a RayService's rayClusterConfig."""

    name: str
    namespace: str
    uid: str
    spec: Object

    @property
    def head_service(self) -> str:
        return f"{self.name}-head-svc"

    @property
    def head_host(self) -> str:
        return f"{self.head_service}.{self.namespace}.svc.cluster.local"

    @property
    def gcs_port(self) -> str:
        port: str = self.spec["headGroupSpec"].get("rayStartParams", {}).get("port", str(GCS))
        return port

    @property
    def has_token(self) -> bool:
        """Whether Ray demands a token, which is in the Secret of the cluster's name."""
        return bool((self.spec.get("authOptions") or {}).get("mode") == "token")

    @property
    def owner(self) -> Object:
        return owner("RayCluster", self.name, self.uid)


def owner(kind: str, name: str, uid: str) -> Object:
    """Return an owner reference, by which the cluster garbage-collects an object with its owner."""
    reference = {"apiVersion": "ray.io/v1", "kind": kind, "name": name, "uid": uid}
    return {**reference, "controller": True, "blockOwnerDeletion": True}


def head_pod(cluster: Cluster) -> Object:
    """Return the head pod, not yet selected by the Serve Service; the caller adds it once its proxy is healthy."""
    group = cluster.spec["headGroupSpec"]
    given = group.get("rayStartParams") or {}
    parameters = {"dashboard-host": "0.0.0.0", **given}
    pod = _pod(cluster, group, "head", "headgroup", parameters)
    pod["metadata"]["labels"]["ray.io/serve"] = "false"
    pod["metadata"]["annotations"]["ray.io/ft-enabled"] = str(_redis(cluster) is not None).lower()
    return pod


def worker_pod(cluster: Cluster, group: Object) -> Object:
    """Return a worker pod of a group. It waits for the head before it starts."""
    address = f"{cluster.head_host}:{cluster.gcs_port}"
    parameters = {"address": address, **(group.get("rayStartParams") or {})}
    pod = _pod(cluster, group, "worker", group["groupName"], parameters)
    pod["metadata"]["labels"]["ray.io/serve"] = "true"
    template = group["template"]["spec"]["containers"][0]
    kept = ("image", "imagePullPolicy", "securityContext", "volumeMounts")
    amounts = {"cpu": "200m", "memory": "256Mi"}
    waiting = {
        "name": "wait-gcs-ready",
        "command": BASH,
        "args": [WAIT.format(address=address)],
        "env": [*copy.deepcopy(template.get("env", [])), *_head_address(cluster), *_token(cluster)],
        "resources": {"limits": amounts, "requests": amounts},
        **{key: copy.deepcopy(template[key]) for key in kept if key in template},
    }
    pod["spec"].setdefault("initContainers", []).append(waiting)
    return pod


def wanted_workers(group: Object) -> int:
    """Return the number of pods of a group: its replicas, within its bounds."""
    if group.get("suspend"):
        return 0
    least, most = group.get("minReplicas", 0), group.get("maxReplicas", math.inf)
    return int(min(max(group.get("replicas", least), least), most)) * int(group.get("numOfHosts", 1))


def _pod(cluster: Cluster, group: Object, kind: str, name: str, parameters: dict[str, str]) -> Object:
    template = copy.deepcopy(group["template"])
    metadata, spec = template.setdefault("metadata", {}), template["spec"]
    prefix = f"{cluster.name}-{name}" if kind == "worker" else cluster.name
    own = {"ray.io/cluster": cluster.name, "ray.io/node-type": kind, "ray.io/group": name}
    overridable = {
        "ray.io/is-ray-node": "yes",
        "ray.io/identifier": f"{cluster.name}-{kind}"[-63:].lstrip("-."),
        "app.kubernetes.io/name": "kuberay",
        "app.kubernetes.io/created-by": "kuberay-operator",
    }
    metadata.update(
        namespace=cluster.namespace,
        generateName=f"{prefix[:50]}-{kind}-".lower(),
        labels={**overridable, **metadata.get("labels", {}), **(group.get("labels") or {}), **own},
        annotations=metadata.get("annotations", {}),
        ownerReferences=[cluster.owner],
    )
    metadata.pop("name", None)
    main = spec["containers"][0]
    command = start_command(kind, parameters, main.get("resources", {}))
    _start(main, command)
    main.setdefault("env", []).extend(_environment(cluster, kind, command, main.get("env", [])))
    ports = main.setdefault("ports", [])
    if not any(port.get("name") == "metrics" for port in ports):
        ports.append({"name": "metrics", "containerPort": METRICS})
    _share_memory(spec, main)
    add_probes(main, kind, int(parameters.get("dashboard-agent-listen-port", AGENT)))
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _start(main: Object, command: str) -> None:
    """Return the container's command. The template's own command runs first, unless it starts Ray itself."""
    own = " ".join([*main.get("command", []), *main.get("args", [])])
    if "ray start" not in own:
        generated = f"ulimit -n ${{RAY_START_ULIMIT_OPEN_FILES:-65536}}; {command}"
        main["command"], main["args"] = BASH, [f"{own} && {generated}" if own else generated]


def _share_memory(spec: Object, main: Object) -> None:
    mounts = main.setdefault("volumeMounts", [])
    if any(mount["mountPath"] == SHARED["mountPath"] for mount in mounts):
        return
    limits = main.get("resources", {}).get("limits", {})
    size = {"sizeLimit": limits["memory"]} if "memory" in limits else {}
    mounts.append(dict(SHARED))
    spec.setdefault("volumes", []).append({"name": SHARED["name"], "emptyDir": {"medium": "Memory", **size}})


def _head_address(cluster: Cluster) -> list[Object]:
    return [{"name": "FQ_RAY_IP", "value": cluster.head_host}, {"name": "RAY_IP", "value": cluster.head_service}]


def _token(cluster: Cluster) -> list[Object]:
    if not cluster.has_token:
        return []
    held = {"secretKeyRef": {"name": cluster.name, "key": TOKEN_KEY}}
    return [{"name": "RAY_AUTH_MODE", "value": "token"}, {"name": "RAY_AUTH_TOKEN", "valueFrom": held}]


def _redis(cluster: Cluster) -> Object | None:
    options: Object | None = cluster.spec.get("gcsFaultToleranceOptions")
    return options


def _environment(cluster: Cluster, kind: str, command: str, given: list[Object]) -> list[Object]:
    """Return the variables the operator adds; a template's own value of an overridable variable is kept."""
    host = "127.0.0.1" if kind == "head" else cluster.head_host
    fields = {
        "RAY_CLUSTER_NAME": "metadata.labels['ray.io/cluster']",
        "RAY_CLUSTER_NAMESPACE": "metadata.namespace",
        "RAY_CLOUD_INSTANCE_ID": "metadata.name",
        "RAY_NODE_TYPE_NAME": "metadata.labels['ray.io/group']",
    }
    named = {entry["name"] for entry in given}
    defaults = {
        "KUBERAY_GEN_RAY_START_CMD": command,
        "RAY_PORT": cluster.gcs_port,
        "RAY_timeout_ms_task_wait_for_death_info": "0",
        "RAY_gcs_server_request_timeout_seconds": "5",
        "RAY_SERVE_KV_TIMEOUT_S": "5",
        "RAY_ADDRESS": f"{host}:{cluster.gcs_port}",
        "RAY_USAGE_STATS_KUBERAY_IN_USE": "1",
        "RAY_DASHBOARD_ENABLE_K8S_DISK_USAGE": "1",
    }
    if (options := _redis(cluster)) and kind == "head":
        defaults["RAY_external_storage_namespace"] = options.get("externalStorageNamespace", cluster.uid)
        defaults["RAY_REDIS_ADDRESS"] = options["redisAddress"]
    elif options:
        defaults["RAY_gcs_rpc_server_reconnect_timeout_s"] = "600"
    added: list[Object] = [{"name": key, "value": value} for key, value in defaults.items() if key not in named]
    added += [{"name": key, "valueFrom": {"fieldRef": {"fieldPath": path}}} for key, path in fields.items()]
    if options and kind == "head" and "redisPassword" in options:
        added.append({"name": "REDIS_PASSWORD", **options["redisPassword"]})
    return [*added, *_token(cluster), *(_head_address(cluster) if kind == "worker" else [])]
