"""Upgrades on a real API server: what is kept, and what is made anew."""

from typing import Any

import pytest

from tests.cluster.kube.client import Client
from tests.cluster.release import install, ray_service, told

KEPT = {
    *("ca", "redis", "tokens"),
    *(f"{name}-tls" for name in ("cache", "coordinator", "gateway", "redis", "tuner", "worker")),
}
pytestmark = pytest.mark.usefixtures("schemas_folder")


def secrets(ns: Client) -> dict[str, Any]:
    found = {item["metadata"]["name"].removeprefix("rl-tlt-"): item.get("data") for item in ns.items("secrets")}
    return {name: data for name, data in found.items() if not name.startswith("sh.helm")}


def test_certificates_tokens_and_passwords_outlive_an_upgrade(ns: Client) -> None:
    install(ns, "tiny-cpu")
    first = secrets(ns)
    assert set(first) == KEPT
    install(ns, "tiny-cpu", "gateway.config.log_level=debug")
    assert secrets(ns) == first


def test_a_new_host_name_renews_the_gateways_certificate_alone(ns: Client) -> None:
    install(ns, "tiny-cpu")
    first = secrets(ns)
    install(ns, "tiny-cpu", "gateway.ingress.hosts={a.example}")
    assert {name for name, data in secrets(ns).items() if data != first[name]} == {"gateway-tls"}


def test_a_new_image_replaces_the_ray_service(ns: Client) -> None:
    install(ns, "tiny-cpu")
    first = ray_service(ns)
    install(ns, "tiny-cpu", "worker.config.engine.max_running=2")
    same = ray_service(ns)
    assert same["metadata"]["uid"] == first["metadata"]["uid"]
    assert told(same)["engine"]["max_running"] == 2
    install(ns, "tiny-cpu", "image.engine.tag=0.2.0")
    other = ray_service(ns)
    assert other["metadata"]["uid"] != first["metadata"]["uid"]
