"""
A stand-in for KubeRay's operator, so that tests need not build it: it runs RayServices in real pods.

    python -m tests.fakes.rayservice_operator KUBECONFIG

It follows KubeRay 1.7 with `upgradeStrategy.type: None`: one RayCluster, created once; a changed rayClusterConfig has
no effect; a changed serveConfigV2 is submitted to Serve again; missing or terminated pods are replaced; all objects are
deleted with the RayService. Any other strategy is refused with a status condition. KubeRay's custom resource
definitions must be installed.
"""

import argparse
import base64
import secrets
import sys
import time
from http import HTTPStatus
from pathlib import Path
from typing import Any, Never

import yaml

from tests.cluster.kube.rest import Rest, RestError
from tests.fakes import ray_services as serve
from tests.fakes.ray_pods import TOKEN_KEY, Cluster, head_pod, owner, wanted_workers, worker_pod

Object = dict[str, Any]

POLL_S = 1.0
FINALIZER = "ray.io/rayservice-finalizer"
API = "/apis/ray.io/v1"
ALPHABET = "bcdfghjklmnpqrstvwxz2456789"


class Operator:
    """
    Reconciles every RayService once per call. Like KubeRay, keeps the last configuration of each Serve in memory.

    Args:
        pods_only: Do not contact Serve: for nodes that do not exist, where no head responds.
    """

    def __init__(self, api: Rest, *, pods_only: bool = False) -> None:
        self._api = api
        self._pods_only = pods_only
        self._told: dict[str, str] = {}

    def reconcile_all(self) -> None:
        for service in self._api.items(f"{API}/rayservices"):
            meta = service["metadata"]
            try:
                self.reconcile(service)
            except (OSError, RestError, serve.RayServiceError) as error:  # retried in the next round
                sys.stderr.write(f"{meta['namespace']}/{meta['name']}: {type(error).__name__}: {error}\n")
                sys.stderr.flush()

    def reconcile(self, service: Object) -> None:
        """Perform the next steps for one RayService."""
        meta = service["metadata"]
        path = f"{API}/namespaces/{meta['namespace']}/rayservices/{meta['name']}"
        if "deletionTimestamp" in meta:
            self._remove(service, path)
        elif FINALIZER not in meta.get("finalizers", []):
            self._api.merge(path, {"metadata": {"finalizers": [*meta.get("finalizers", []), FINALIZER]}})
        elif (strategy := (service["spec"].get("upgradeStrategy") or {}).get("type")) != "None":
            problem = f"upgradeStrategy.type is {strategy}; the stand-in accepts only None"
            refused = serve.condition("Ready", [], holds=False, reason="ValidationFailed", message=problem)
            self._status(service, path, {"conditions": [refused]})
        else:
            self._run(service, path)

    def _run(self, service: Object, path: str) -> None:
        status = service.get("status", {})
        name = _cluster_name(status)
        if not name:
            suffix = "".join(secrets.choice(ALPHABET) for _ in range(5))
            name = f"{service['metadata']['name']}-{suffix}"
            self._status(service, path, {"pendingServiceStatus": {"rayClusterName": name}})
            return
        cluster = self._cluster(service, name)
        if cluster.has_token:
            self._ensure("secrets", serve.token_secret(cluster))
        self._ensure("services", serve.cluster_head_service(cluster))
        head, workers_ready = self._pods(cluster)
        running: dict[str, Object] = {}
        if head and _ready(head) and not self._pods_only:
            running = self._serve(service, cluster, head)
        if running and all(found["status"] == "RUNNING" for found in running.values()):
            self._ensure("services", serve.head_service(service, cluster))
            self._ensure("services", serve.serve_service(service, cluster))
            status = {**status, "activeServiceStatus": {"rayClusterName": name}, "pendingServiceStatus": None}
        self._report(service, path, status, running)
        ready = {"state": "ready"} if head and _ready(head) and workers_ready else {}
        self._api.merge(f"{API}/namespaces/{cluster.namespace}/rayclusters/{name}/status", {"status": ready})

    def _cluster(self, service: Object, name: str) -> Cluster:
        """Return the RayCluster of a RayService, created from its first configuration and never changed."""
        meta = service["metadata"]
        collection = f"{API}/namespaces/{meta['namespace']}/rayclusters"
        labels = {"ray.io/originated-from-cr-name": meta["name"], "ray.io/originated-from-crd": "RayService"}
        made = {
            "apiVersion": "ray.io/v1",
            "kind": "RayCluster",
            "metadata": {
                "name": name,
                "labels": {**meta.get("labels", {}), **labels},
                "ownerReferences": [owner("RayService", meta["name"], meta["uid"])],
            },
            "spec": service["spec"]["rayClusterConfig"],
        }
        found = self._found(f"{collection}/{name}") or self._api.create(collection, made)
        return Cluster(name=name, namespace=meta["namespace"], uid=found["metadata"]["uid"], spec=found["spec"])

    def _pods(self, cluster: Cluster) -> tuple[Object | None, bool]:
        """Replace missing pods. Return the head, and whether all workers are ready."""
        pods = self._living(cluster)
        heads = [pod for pod in pods if pod["metadata"]["labels"]["ray.io/node-type"] == "head"]
        if not heads:
            self._make("pods", head_pod(cluster))
        ready = True
        for group in cluster.spec.get("workerGroupSpecs", []):
            mine = [pod for pod in pods if pod["metadata"]["labels"]["ray.io/group"] == group["groupName"]]
            wanted = wanted_workers(group)
            for _ in range(wanted - len(mine)):
                self._make("pods", worker_pod(cluster, group))
            ready = ready and sum(map(_ready, mine)) >= wanted
        return (heads[0] if heads else None), ready

    def _living(self, cluster: Cluster) -> list[Object]:
        """Return its pods that are not terminating; delete those that ended."""
        collection = f"/api/v1/namespaces/{cluster.namespace}/pods"
        living = []
        for pod in self._api.items(f"{collection}?labelSelector=ray.io/cluster={cluster.name}"):
            if pod["status"].get("phase") in {"Failed", "Succeeded"}:
                self._api.delete(f"{collection}/{pod['metadata']['name']}")
            elif "deletionTimestamp" not in pod["metadata"]:
                living.append(pod)
        return living

    def _serve(self, service: Object, cluster: Cluster, head: Object) -> dict[str, Object]:
        """Submit a new configuration to Serve; return the status of its applications."""
        address, config, token = head["status"]["podIP"], service["spec"].get("serveConfigV2", ""), self._token(cluster)
        running = serve.applications(address, token)
        if not running or self._told.get(cluster.name) != config:
            serve.deploy(address, token, yaml.safe_load(config))
            self._told[cluster.name] = config
        serving = "false"
        if not service["spec"].get("excludeHeadPodFromServeSvc"):
            serving = str(serve.proxy_healthy(address)).lower()
        if head["metadata"]["labels"].get("ray.io/serve") != serving:
            path = f"/api/v1/namespaces/{cluster.namespace}/pods/{head['metadata']['name']}"
            self._api.merge(path, {"metadata": {"labels": {"ray.io/serve": serving}}})
        return running

    def _token(self, cluster: Cluster) -> str:
        """Return what Ray demands of callers; empty: nothing."""
        if not cluster.has_token:
            return ""
        held = self._found(f"/api/v1/namespaces/{cluster.namespace}/secrets/{cluster.name}")
        return base64.b64decode(held["data"][TOKEN_KEY]).decode() if held else ""

    def _report(self, service: Object, path: str, status: Object, running: dict[str, Object]) -> None:
        endpoints = self._endpoints(service)
        reason, old = ("NonZero" if endpoints else "Zero") + "ServeEndpoints", status.get("conditions", [])
        message = f"{endpoints} serve endpoints"
        active = "activeServiceStatus" if (status.get("activeServiceStatus") or {}).get("rayClusterName") else None
        merged: Object = {
            "numServeEndpoints": endpoints,
            "serviceStatus": "Running" if endpoints else "",
            "observedGeneration": service["metadata"]["generation"],
            "conditions": [serve.condition("Ready", old, holds=endpoints > 0, reason=reason, message=message)],
            "pendingServiceStatus": status.get("pendingServiceStatus"),
        }
        # Set removed applications to null explicitly: a merge patch would keep them.
        known = (status.get("activeServiceStatus") or {}).get("applicationStatuses", {})
        shown = {**dict.fromkeys(known), **running}
        if active:
            merged[active] = {**status[active], "applicationStatuses": shown}
        else:
            merged["pendingServiceStatus"] = {"rayClusterName": _cluster_name(status), "applicationStatuses": shown}
        self._status(service, path, merged)

    def _endpoints(self, service: Object) -> int:
        """Return the number of ready pods of the Serve Service."""
        meta = service["metadata"]
        selector = f"kubernetes.io/service-name={meta['name']}-serve-svc"
        slices = f"/apis/discovery.k8s.io/v1/namespaces/{meta['namespace']}/endpointslices?labelSelector={selector}"
        found = [endpoint for each in self._api.items(slices) for endpoint in each.get("endpoints") or []]
        ready = [one for one in found if one.get("conditions", {}).get("ready") and "targetRef" in one]
        return len({one["targetRef"]["uid"] for one in ready})

    def _remove(self, service: Object, path: str) -> None:
        """Release the RayService once its RayCluster and pods are deleted; it owns its Services."""
        meta, name = service["metadata"], _cluster_name(service.get("status", {}))
        pods = f"/api/v1/namespaces/{meta['namespace']}/pods"
        left = self._api.items(f"{pods}?labelSelector=ray.io/cluster={name}") if name else []
        self._api.delete(f"{API}/namespaces/{meta['namespace']}/rayclusters/{name}") if name else None
        for pod in left:
            if "deletionTimestamp" not in pod["metadata"]:
                self._api.delete(f"{pods}/{pod['metadata']['name']}")
        if not left:
            for suffix in (f"{name}-head-svc", f"{meta['name']}-head-svc", f"{meta['name']}-serve-svc"):
                self._api.delete(f"/api/v1/namespaces/{meta['namespace']}/services/{suffix}")
            kept = [found for found in meta.get("finalizers", []) if found != FINALIZER]
            self._api.merge(path, {"metadata": {"finalizers": kept}})

    def _status(self, service: Object, path: str, status: Object) -> None:
        self._api.merge(f"{path}/status", {"status": status})

    def _found(self, path: str) -> Object | None:
        try:
            found: Object = yaml.safe_load(self._api.get(path))
        except RestError as error:
            if error.status == HTTPStatus.NOT_FOUND:
                return None
            raise
        return found

    def _ensure(self, kind: str, made: Object) -> None:
        meta = made["metadata"]
        if not self._found(f"/api/v1/namespaces/{meta['namespace']}/{kind}/{meta['name']}"):
            self._make(kind, made)

    def _make(self, kind: str, made: Object) -> None:
        self._api.create(f"/api/v1/namespaces/{made['metadata']['namespace']}/{kind}", made)


def _cluster_name(status: Object) -> str:
    for key in ("activeServiceStatus", "pendingServiceStatus"):
        if name := (status.get(key) or {}).get("rayClusterName"):
            return str(name)
    return ""


def _ready(pod: Object) -> bool:
    conditions = {found["type"]: found["status"] for found in pod["status"].get("conditions", [])}
    return conditions.get("Ready") == "True"


def run(api: Rest) -> Never:
    operator = Operator(api)
    while True:
        try:
            operator.reconcile_all()
        except (OSError, RestError) as error:  # definitions are missing, or the API server is starting or stopping
            sys.stderr.write(f"{type(error).__name__}: {error}\n")
        time.sleep(POLL_S)


if __name__ == "__main__":
    cli = argparse.ArgumentParser(description=(__doc__ or "").strip().splitlines()[0])
    cli.add_argument("kubeconfig", type=Path)
    run(Rest(cli.parse_args().kubeconfig))
