"""Helm rejects values that cannot work and names the value to set."""

from typing import Any

import pytest

from tests.chart.rendering import APIS, Object, RenderError, merged, render

EXTERNAL = {"redis": {"mode": "external", "existingSecret": {"name": "redis", "key": "url"}}}

REFUSED = {
    "no model": ({"model": {"pvc": {"claim": ""}}}, "model.pvc.claim: NAME"),
    "no URL of the model": ({"model": {"source": "url"}}, "set model.url.url"),
    "no path of the model": ({"model": {"source": "hostPath"}}, "set model.hostPath.path to an absolute path"),
    "a relative path": (
        {"drafters": {"source": "hostPath", "hostPath": {"path": "here"}}},
        "set drafters.hostPath.path to an absolute path",
    ),
    "no URL of drafters": ({"drafters": {"source": "url"}}, "set drafters.url.url"),
    "latest": ({"image": {"engine": {"tag": "latest"}}}, "image.engine.tag is latest"),
    "no digest": ({"image": {"requireDigests": True}}, "image.slim.digest is empty"),
    "no digest of Redis": (
        {"image": {"requireDigests": True} | {key: {"digest": f"sha256:{'1' * 64}"} for key in ("slim", "engine")}},
        "redis.image.digest is empty",
    ),
    "no secret of Redis": ({"redis": {"mode": "external"}}, "set redis.existingSecret"),
    "no way to Redis": (EXTERNAL, "set networkPolicy.redis"),
    "no way to the collector": ({"traces": "http://c:4317"}, "set networkPolicy.traces"),
    "a collector that is no URL": ({"traces": "collector:4317"}, "at '/traces'"),
    "no secrets": ({"tls": {"mode": "secret"}}, "set tls.secrets.cache"),
    "no issuer": ({"tls": {"mode": "certManager"}}, "set tls.certManager.issuer.name"),
    "no host": ({"gateway": {"ingress": {"enabled": True}}}, "set gateway.ingress.hosts"),
    "no host of the page": ({"coordinator": {"ingress": {"enabled": True}}}, "set coordinator.ingress.hosts"),
    "no parents": ({"gateway": {"grpcRoute": {"enabled": True}}}, "set gateway.grpcRoute.parentRefs"),
    "no tokenizer for HTTP": (
        {"gateway": {"http": {"enabled": True}}, "model": {"source": "url", "url": {"url": "s3://bucket/model"}}},
        "set gateway.http.tokenizer to none",
    ),
    "minimum above maximum": (
        {"gateway": {"autoscaling": {"enabled": True, "minReplicas": 9}}},
        "minReplicas is greater than gateway.autoscaling.maxReplicas",
    ),
    "an unknown value": ({"wroker": {}}, "additional properties 'wroker' not allowed"),
    "an unknown value within": ({"worker": {"replica": 2}}, "additional properties 'replica' not allowed"),
    "a wrong type": ({"worker": {"replicas": "two"}}, "at '/worker/replicas': got string, want integer"),
    "too few": ({"worker": {"replicas": 0}}, "at '/worker/replicas'"),
    "negative GPUs": ({"worker": {"gpus": -1}}, "at '/worker/gpus'"),
    "an unknown mode": ({"redis": {"mode": "cluster"}}, "at '/redis/mode'"),
    "an unknown setting of a service": (
        {"gateway": {"config": {"max_queue": 1}}},
        "at '/gateway/config': additional properties 'max_queue' not allowed",
    ),
    "a setting out of range": (
        {"gateway": {"config": {"max_queued": 0}}},
        "at '/gateway/config/max_queued'",
    ),
    "a setting within": (
        {"cache": {"config": {"capture": {"ratio": 1}}}},
        "at '/cache/config/capture': additional properties 'ratio' not allowed",
    ),
    "a key that the chart fills in": (
        {"worker": {"config": {"listen": "0.0.0.0:1"}}},
        "at '/worker/config': additional properties 'listen' not allowed",
    ),
    "a key that workers set for trainers": (
        {"worker": {"trainer": {"socket": "/x"}}},
        "at '/worker/trainer': additional properties 'socket' not allowed",
    ),
    "a misspelled toleration": (
        {"worker": {"tolerations": [{"keys": "x"}]}},
        "additional properties 'keys' not allowed",
    ),
    "no quantity": ({"worker": {"scratch": "much"}}, "at '/worker/scratch'"),
    "a digest that is none": ({"image": {"slim": {"digest": "abc"}}}, "at '/image/slim/digest'"),
}


@pytest.mark.parametrize(("values", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_helm_names_the_value_to_set(values: Object, message: str) -> None:
    with pytest.raises(RenderError) as caught:
        render(values)
    assert message in str(caught.value)


ROUTE = {"gateway": {"grpcRoute": {"enabled": True, "parentRefs": [{"name": "public"}]}}}
MISSING: dict[str, tuple[str, Any, str]] = {
    "KubeRay": ("ray.io/v1/RayService", {}, "helm install kuberay-operator"),
    "cert-manager": (
        "cert-manager.io/v1",
        {"tls": {"mode": "certManager", "certManager": {"issuer": {"name": "ca"}}}},
        "this cluster has no cert-manager",
    ),
    "GRPCRoute": ("gateway.networking.k8s.io/v1/GRPCRoute", ROUTE, "set gateway.grpcRoute.enabled to false"),
    "BackendTLSPolicy": ("gateway.networking.k8s.io/v1/BackendTLSPolicy", ROUTE, "install Gateway API 1.4 or later"),
    "PodMonitor": (
        "monitoring.coreos.com/v1/PodMonitor",
        {"monitoring": {"podMonitors": {"enabled": True}}},
        "set monitoring.podMonitors.enabled to auto or false",
    ),
    "PrometheusRule": (
        "monitoring.coreos.com/v1/PrometheusRule",
        {"monitoring": {"rules": {"enabled": True}}},
        "set monitoring.rules.enabled to auto or false",
    ),
}


@pytest.mark.parametrize(("api", "values", "message"), MISSING.values(), ids=MISSING.keys())
def test_helm_names_what_the_cluster_lacks(api: str, values: Object, message: str) -> None:
    render(values)
    with pytest.raises(RenderError) as caught:
        render(values, apis=[known for known in APIS if known != api])
    assert message in str(caught.value)


def test_a_long_release_name_is_refused() -> None:
    with pytest.raises(RenderError, match="at most 27 characters"):
        render(release="a" * 28)
    assert render(release="a" * 27).of("RayService")


def test_missing_secrets_are_named_one_by_one() -> None:
    secrets = {"gateway": "a", "coordinator": "b", "cache": "c", "tuner": "d", "redis": "f"}
    values = {"tls": {"mode": "secret", "secrets": secrets}}
    with pytest.raises(RenderError) as caught:
        render(values)
    assert "set tls.secrets.worker" in str(caught.value)
    assert "worker.tlt.internal" in str(caught.value)
    assert render(merged(values, {"tls": {"secrets": {"worker": "e"}}})).pods["worker"]


def test_a_cluster_with_an_older_kuberay_is_told_so() -> None:
    discovered = (*APIS, "v1/Pod")
    with pytest.raises(RenderError, match=r"RayService is older than KubeRay 1\.6"):
        render(apis=discovered)
    assert render(apis=(*discovered, "ray.io/v1/RayCronJob")).objects
