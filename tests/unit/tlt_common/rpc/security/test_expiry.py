from datetime import UTC, datetime
from pathlib import Path

import pytest
import trustme
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import REGISTRY

from tests.fakes.authority import Authority
from tlt_common.rpc.security.certificates import certificates, expires_at

CA = trustme.CA()


@given(st.datetimes(datetime(2026, 1, 1), datetime(2199, 12, 31)))  # noqa: DTZ001 - hypothesis wants naive bounds
def test_the_end_of_a_certificate_is_found(end: datetime) -> None:
    end = end.replace(microsecond=0, tzinfo=UTC)
    issued = CA.issue_cert("worker.tlt.internal", not_before=datetime(2025, 1, 1, tzinfo=UTC), not_after=end)
    chain = b"".join(blob.bytes() for blob in issued.cert_chain_pems)
    assert expires_at(b"a comment\n" + chain + CA.cert_pem.bytes()) == end


def test_what_is_no_certificate_is_refused() -> None:
    with pytest.raises(ValueError, match="substring not found"):
        expires_at(b"nothing")


def test_the_process_shows_when_its_certificate_expires(tmp_path: Path) -> None:
    tls = Authority(tmp_path).issue("worker")
    certificates(tls)
    shown = REGISTRY.get_sample_value("tlt_tls_certificate_expiry_timestamp_seconds")
    assert shown == expires_at(tls.certificate.read_bytes()).timestamp()
