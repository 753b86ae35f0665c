"""The Services and statuses that KubeRay 1.7's operator creates for a RayService. Part of `rayservice_operator`."""

import json
import secrets
import urllib.error
import urllib.request
from datetime import UTC, datetime
from typing import Any

from tests.fakes.ray_pods import TOKEN_KEY, Cluster, owner
from tests.fakes.ray_start import METRICS

Object = dict[str, Any]

DEFAULT_PORTS = {"client": 10001, "gcs-server": 6379, "dashboard": 8265, "metrics": METRICS, "serve": 8000}
NAME = "app.kubernetes.io/name"
TIMEOUT_S = 10.0


class RayServiceError(Exception):
    """The RayService would not run with KubeRay either."""


def token_secret(cluster: Cluster) -> Object:
    """Return the Secret with the token that Ray demands of callers."""
    labels = {"ray.io/cluster": cluster.name}
    meta = {"name": cluster.name, "namespace": cluster.namespace, "labels": labels, "ownerReferences": [cluster.owner]}
    content = {TOKEN_KEY: secrets.token_urlsafe(32)}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "stringData": content}


def cluster_head_service(cluster: Cluster) -> Object:
    """Return the headless Service through which workers find the head, ready or not."""
    labels = cluster.spec["headGroupSpec"]["template"].get("metadata", {}).get("labels", {})
    return _head_service(cluster, labels.get(NAME, "kuberay"))


def _head_service(cluster: Cluster, application: str) -> Object:
    service = _service(cluster.head_service, cluster, cluster.owner, _ports(cluster))
    service["spec"].update(clusterIP="None", publishNotReadyAddresses=True)
    created = {"app.kubernetes.io/created-by": "kuberay-operator", NAME: application}
    service["spec"]["selector"] = {**service["spec"]["selector"], **created}
    return service


def head_service(service: Object, cluster: Cluster) -> Object:
    """Return the same Service under the RayService's name. It selects no head with another `NAME` label."""
    named = _head_service(cluster, "kuberay")
    meta = service["metadata"]
    named["metadata"]["name"] = f"{meta['name']}-head-svc"
    named["metadata"]["ownerReferences"] = [owner("RayService", meta["name"], meta["uid"])]
    return named


def serve_service(service: Object, cluster: Cluster) -> Object:
    """Return the Service of the pods with healthy Serve proxies."""
    meta = service["metadata"]
    reference = owner("RayService", meta["name"], meta["uid"])
    ports = {name: port for name, port in _ports(cluster).items() if name == "serve" or name.startswith("serve-")}
    if not ports:  # KubeRay reports the same and stops: the RayService never becomes ready
        raise RayServiceError("the head container has no port named `serve`: no Service for Serve can be made")
    made = _service(f"{meta['name']}-serve-svc", cluster, reference, ports)
    made["spec"]["selector"] = {"ray.io/cluster": cluster.name, "ray.io/serve": "true"}
    return made


def applications(head: str, token: str) -> dict[str, Object]:
    """Return Serve's status and message of its applications and their deployments."""
    reply = _http("GET", f"http://{head}:8265/api/serve/applications/?api_type=declarative", token=token)
    found = {}
    for name, application in json.loads(reply)["applications"].items():
        deployments = {
            key: {"status": value["status"], "message": value.get("message", "")}
            for key, value in application.get("deployments", {}).items()
        }
        state = {"status": application["status"], "message": application.get("message", "")}
        found[name or "default"] = {**state, "serveDeploymentStatuses": deployments}
    return found


def deploy(head: str, token: str, config: Object) -> None:
    """Submit the configuration to Serve, which then works towards it."""
    _http("PUT", f"http://{head}:8265/api/serve/applications/", json.dumps(config).encode(), token=token)


def proxy_healthy(head: str) -> bool:
    """Whether the head's Serve proxy would accept requests."""
    try:
        return _http("GET", f"http://{head}:{DEFAULT_PORTS['serve']}/-/healthz") == b"success"
    except OSError:
        return False


def condition(kind: str, old: list[Object], *, holds: bool, reason: str, message: str) -> Object:
    """Return a condition; its transition time changes only with its status."""
    status = "True" if holds else "False"
    same = [found for found in old if found["type"] == kind and found["status"] == status]
    since = same[0]["lastTransitionTime"] if same else datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": since}


def _ports(cluster: Cluster) -> dict[str, int]:
    main = cluster.spec["headGroupSpec"]["template"]["spec"]["containers"][0]
    given = {port.get("name", f"{port['containerPort']}-port"): port["containerPort"] for port in main.get("ports", [])}
    return {"metrics": METRICS, **(given or DEFAULT_PORTS)}


def _service(name: str, cluster: Cluster, reference: Object, ports: dict[str, int]) -> Object:
    selector = {"ray.io/cluster": cluster.name, "ray.io/node-type": "head"}
    listed = [{"name": key, "port": port} for key, port in sorted(ports.items())]
    meta = {"name": name, "namespace": cluster.namespace, "labels": selector, "ownerReferences": [reference]}
    spec: Object = {"selector": selector, "ports": listed}
    return {"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": spec}


def _http(method: str, url: str, body: bytes | None = None, *, token: str = "") -> bytes:
    headers = {"Content-Type": "application/json"}
    if token:
        headers["x-ray-authorization"] = f"Bearer {token}"
    request = urllib.request.Request(url, data=body, method=method, headers=headers)  # noqa: S310 - our own pod
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as reply:  # noqa: S310
            answer: bytes = reply.read()
            return answer
    except urllib.error.HTTPError as error:
        raise OSError(f"{method} {url}: {error.code} {error.read().decode(errors='replace')}") from error
