from pathlib import Path

import pytest
from prometheus_client import REGISTRY

from tests.fakes.authority import Authority
from tlt_common.config.base import TlsSettings
from tlt_common.errors import ConfigError
from tlt_common.rpc.security.certificates import certificates as watched


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def reloads(outcome: str) -> float:
    return REGISTRY.get_sample_value("tlt_rpc_reloads_total", {"kind": "certificate", "outcome": outcome}) or 0.0


def test_files_that_stay_are_read_once(authority: Authority) -> None:
    certificates = watched(authority.issue("worker"))
    assert certificates.current() is certificates.current()


def test_a_renewed_certificate_is_picked_up(authority: Authority) -> None:
    tls = authority.issue("worker")
    certificates = watched(tls)
    first, before = certificates.current(), reloads("loaded")
    authority.issue("worker")
    assert certificates.current().certificate == tls.certificate.read_bytes() != first.certificate
    assert reloads("loaded") == before + 1


def test_a_half_written_renewal_leaves_what_was_good_and_is_counted_once(authority: Authority) -> None:
    tls = authority.issue("worker")
    certificates = watched(tls)
    first, before = certificates.current(), reloads("refused")
    other = authority.issue("cache")
    tls.certificate.write_bytes(other.certificate.read_bytes())
    assert certificates.current() is first
    assert certificates.current() is first
    assert reloads("refused") == before + 1
    tls.key.write_bytes(other.key.read_bytes())
    assert certificates.current().certificate == other.certificate.read_bytes()


def test_a_file_that_vanishes_leaves_what_was_good(authority: Authority) -> None:
    tls = authority.issue("worker")
    certificates = watched(tls)
    first, before = certificates.current(), reloads("refused")
    tls.ca.unlink()
    assert certificates.current() is first
    assert certificates.current() is first
    assert reloads("refused") == before + 1
    authority.issue("worker")
    assert certificates.current() is not first


def _missing(tls: TlsSettings, _authority: Authority) -> None:
    tls.key.unlink()


def _garbage(tls: TlsSettings, _authority: Authority) -> None:
    tls.certificate.write_text("no PEM")


def _mismatch(tls: TlsSettings, authority: Authority) -> None:
    tls.key.write_bytes(authority.issue("other").key.read_bytes())


def _no_authority(tls: TlsSettings, _authority: Authority) -> None:
    tls.ca.write_text("")


@pytest.mark.parametrize(
    ("spoil", "field"),
    [(_missing, "tls.key"), (_garbage, "tls.certificate"), (_mismatch, "tls.certificate"), (_no_authority, "tls.ca")],
)
def test_what_is_wrong_at_the_start_is_named(authority: Authority, spoil: object, field: str) -> None:
    tls = authority.issue("worker")
    assert callable(spoil)
    spoil(tls, authority)
    with pytest.raises(ConfigError) as caught:
        watched(tls)
    assert caught.value.field == field
