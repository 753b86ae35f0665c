"""Certificates: who issues them, which names they contain, where they are mounted."""

import ssl
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID

from tests.chart.rendering import VALUE_SETS, Object, render

COMPONENTS = ("gateway", "coordinator", "cache", "tuner", "worker")


def certificate(component: str, values: Any = None) -> x509.Certificate:
    secret = render(values).one("Secret", f"{component}-tls")
    return x509.load_pem_x509_certificate(secret["stringData"]["tls.crt"].encode())


def names(found: x509.Certificate) -> list[str]:
    extension = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return extension.get_values_for_type(x509.DNSName)


@pytest.mark.parametrize("component", COMPONENTS)
def test_generated_certificates_carry_the_names_of_the_component(component: str) -> None:
    assert names(certificate(component)) == [
        f"{component}.tlt.internal",
        "localhost",
        f"rl-tlt-{component}",
        f"rl-tlt-{component}.rollouts",
        f"rl-tlt-{component}.rollouts.svc",
        f"rl-tlt-{component}.rollouts.svc.cluster.local",
    ]


@pytest.mark.parametrize("component", COMPONENTS)
def test_generated_certificates_are_signed_by_the_ca_of_the_release(component: str) -> None:
    rendered = render()
    ca = x509.load_pem_x509_certificate(rendered.one("ConfigMap", "ca")["data"]["ca.crt"].encode())
    found = certificate(component)
    key = ca.public_key()
    assert isinstance(key, rsa.RSAPublicKey)
    assert found.signature_hash_algorithm
    key.verify(found.signature, found.tbs_certificate_bytes, padding.PKCS1v15(), found.signature_hash_algorithm)
    secret = rendered.one("Secret", f"{component}-tls")
    assert secret["type"] == "kubernetes.io/tls"
    assert secret["stringData"]["ca.crt"] == rendered.one("ConfigMap", "ca")["data"]["ca.crt"]


def test_generated_files_can_be_loaded(tmp_path: Path) -> None:
    for key, value in render().one("Secret", "worker-tls")["stringData"].items():
        (tmp_path / key).write_text(value)
    context = ssl.create_default_context(cafile=str(tmp_path / "ca.crt"))
    context.load_cert_chain(tmp_path / "tls.crt", tmp_path / "tls.key")
    usage = certificate("worker").extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert {ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH} <= set(usage)


def test_the_gateways_certificate_contains_host_names() -> None:
    hosts = {"gateway": {"ingress": {"enabled": True, "hosts": ["a.example"], "tlsSecret": "x"}}}
    assert "a.example" in names(certificate("gateway", hosts))
    assert "a.example" not in names(certificate("worker", hosts))
    assert "rollouts.example.org" in render("tls-external-redis").one("Certificate", "gateway")["spec"]["dnsNames"]


def test_the_coordinators_certificate_contains_the_pages_host_names() -> None:
    hosts = {"coordinator": {"ingress": {"enabled": True, "hosts": ["fleet.example"], "tlsSecret": "x"}}}
    assert "fleet.example" in names(certificate("coordinator", hosts))
    assert "fleet.example" not in names(certificate("gateway", hosts))


@pytest.mark.parametrize("component", COMPONENTS)
def test_cert_manager_issues_certificates_for_both_sides(component: str) -> None:
    rendered = render("tls-external-redis")
    spec = rendered.one("Certificate", component)["spec"]
    assert spec["secretName"] == f"rl-tlt-{component}-tls"
    assert spec["dnsNames"][0] == f"{component}.tlt.internal"
    assert {"server auth", "client auth"} <= set(spec["usages"])
    assert spec["issuerRef"] == {"name": "ca", "kind": "ClusterIssuer", "group": "cert-manager.io"}
    assert f"{component}-tls" not in rendered.of("Secret")


def mounted(values: str, component: str) -> list[Object]:
    pod = render(values).pods[component]
    volumes = [volume["projected"]["sources"] for volume in pod.spec["volumes"] if "projected" in volume]
    return [source["secret"] for sources in volumes for source in sources if "secret" in source]


@pytest.mark.parametrize("component", COMPONENTS)
def test_certificates_are_mounted_at_the_configured_paths(component: str) -> None:
    for values, secret in (("air-gapped", f"{component}-tls"), ("tiny-cpu", f"rl-tlt-{component}-tls")):
        (source,) = [found for found in mounted(values, component) if found["name"] == secret]
        assert {item["key"]: f"/etc/tlt/{item['path']}" for item in source["items"]} == {
            "tls.crt": "/etc/tlt/tls/tls.crt",
            "tls.key": "/etc/tlt/tls/tls.key",
            "ca.crt": "/etc/tlt/tls/ca.crt",
        }


def test_the_test_gets_a_ca_and_no_key() -> None:
    keys = {item["key"] for source in mounted("tiny-cpu", "test") for item in source["items"]}
    assert keys == {"ca.crt", "token"}


@pytest.mark.parametrize("name", VALUE_SETS)
def test_probes_use_the_scheme_of_services(name: str) -> None:
    scheme = "HTTP" if name == "plain" else "HTTPS"
    for component in ("gateway", "coordinator", "cache", "tuner"):
        container = render(name).pods[component].main
        for probe, path in (("startupProbe", "/livez"), ("livenessProbe", "/livez"), ("readinessProbe", "/readyz")):
            assert container[probe]["httpGet"] == {"path": path, "port": "metrics", "scheme": scheme}


def test_off_creates_no_certificates() -> None:
    rendered = render("plain")
    assert not any(name.endswith("-tls") for name in rendered.of("Secret"))
    assert not rendered.of("Certificate")
    assert render({"tls": {"mode": "off"}}).config("gateway").get("tls") is None
