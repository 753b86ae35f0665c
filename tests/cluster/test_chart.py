"""The chart on a real API server: its objects are valid, its pods admitted, its secrets kept."""

from typing import Any

import pytest
import yaml

from tests.chart.rendering import CHART, Object
from tests.cluster.kube import schemas
from tests.cluster.kube.binaries import missing
from tests.cluster.kube.client import Client
from tests.cluster.kube.commands import CommandError
from tests.cluster.kube.control_plane import ControlPlane
from tests.cluster.kube.kuberay import install_definitions

# The others need kinds of cert-manager or secrets of their own.
SETS = ("tiny-cpu", "one-node-8-gpus", "plain")
KEPT = {"ca", "cache-tls", "coordinator-tls", "gateway-tls", "redis", "tokens", "tuner-tls", "worker-tls"}


@pytest.fixture(autouse=True)
def _definitions(control_plane: ControlPlane) -> None:
    if absent := missing("helm", "kubeconform"):
        pytest.skip(absent)
    install_definitions(control_plane)


def install(ns: Client, name: str, *options: str) -> None:
    ns.helm("upgrade", "--install", "rl", CHART, "--values", CHART / "ci" / f"{name}.yaml", *options)


@pytest.mark.parametrize("name", SETS)
def test_a_value_set_is_installed_and_its_pods_are_admitted(ns: Client, name: str) -> None:
    install(ns, name)
    (service,) = ns.items("rayservices")
    cluster = service["spec"]["rayClusterConfig"]
    for group in (cluster["headGroupSpec"], *cluster["workerGroupSpecs"]):
        pod = group["template"]
        pod["metadata"]["name"] = pod["metadata"]["labels"]["app.kubernetes.io/component"]
        ns.apply({"apiVersion": "v1", "kind": "Pod", **pod})  # under the restricted level, as everything here
    created = [item for item in ns.items("replicasets") if item["spec"]["replicas"]]
    assert len(created) == 4
    ns.helm("uninstall", "rl")
    assert not ns.items("rayservices")


@pytest.mark.parametrize("name", SETS)
def test_no_object_has_an_unknown_field(
    control_plane: ControlPlane, ns: Client, name: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("schemas")
    schemas.write(control_plane, folder)
    install(ns, name)
    schemas.check(ns.helm("get", "manifest", "rl"), folder)


def secrets(ns: Client) -> dict[str, Any]:
    found = {item["metadata"]["name"].removeprefix("rl-tlt-"): item.get("data") for item in ns.items("secrets")}
    return {name: data for name, data in found.items() if not name.startswith("sh.helm")}


def test_certificates_tokens_and_passwords_outlive_an_upgrade(ns: Client) -> None:
    install(ns, "tiny-cpu")
    first = secrets(ns)
    assert set(first) == KEPT
    install(ns, "tiny-cpu", "--set", "gateway.config.log_level=debug")
    assert secrets(ns) == first


def test_a_new_host_name_renews_the_gateways_certificate_alone(ns: Client) -> None:
    install(ns, "tiny-cpu")
    first = secrets(ns)
    install(ns, "tiny-cpu", "--set", "gateway.ingress.hosts={a.example}")
    assert {name for name, data in secrets(ns).items() if data != first[name]} == {"gateway-tls"}


def test_a_new_image_replaces_the_ray_service(ns: Client) -> None:
    install(ns, "tiny-cpu")
    (first,) = ns.items("rayservices")
    install(ns, "tiny-cpu", "--set", "worker.config.max_running=2")
    (same,) = ns.items("rayservices")
    assert same["metadata"]["uid"] == first["metadata"]["uid"]
    assert told(same)["max_running"] == 2
    install(ns, "tiny-cpu", "--set", "image.engine.tag=0.2.0")
    (other,) = ns.items("rayservices")
    assert other["metadata"]["uid"] != first["metadata"]["uid"]


def told(service: Object) -> Object:
    config: Object = yaml.safe_load(service["spec"]["serveConfigV2"])["applications"][0]["args"]["worker"]
    return config


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["auth.existingSecret=none"], 'auth.existingSecret: there is no secret "none"'),
        (["auth.existingSecret=other"], 'auth.existingSecret: the secret has no key "tokens.yaml"'),
        (
            [
                "redis.mode=external",
                "redis.existingSecret.name=other",
                "redis.existingSecret.key=url",
                "networkPolicy.enabled=false",
            ],
            'redis.existingSecret.name: the secret has no key "url"',
        ),
    ],
)
def test_secrets_that_lack_something_are_named(ns: Client, options: list[str], said: str) -> None:
    ns.kubectl("create", "secret", "generic", "other", "--from-literal=key=value")
    with pytest.raises(CommandError) as caught:
        install(ns, "tiny-cpu", *(part for option in options for part in ("--set", option)))
    assert said in str(caught.value)
    assert not ns.items("deployments")
