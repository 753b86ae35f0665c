import pytest
from hypothesis import given
from hypothesis import strategies as st

from tlt_common.rpc.http.hosts import is_own_host


@pytest.mark.parametrize(
    "header", ["127.0.0.1", "127.0.0.1:80", "[::1]:80", "localhost", "node7:7702", "a.svc", "A.Local.", ""]
)
def test_private_names_are_own(header: str) -> None:
    assert is_own_host(header)


@given(st.from_regex(r"[a-z0-9-]{1,20}(\.[a-z0-9-]{1,20}){0,3}\.(com|org|example|io)(:[0-9]{1,5})?\.?", fullmatch=True))
def test_names_that_can_be_registered_are_not_own(header: str) -> None:
    assert not is_own_host(header)


def test_public_names_are_own_if_they_are_listed() -> None:
    assert is_own_host("Page.Example:443", ["page.example"])
    assert not is_own_host("other.example", ["page.example"])
