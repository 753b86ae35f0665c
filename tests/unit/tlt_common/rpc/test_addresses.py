"""Addresses are checked before anything starts."""

import socket

import pytest

from tlt_common.errors import ConfigError
from tlt_common.rpc.addresses import is_local, joined, listener, require_free, resolved, split, with_port
from tlt_common.rpc.http.server import address_of, bind


@pytest.mark.parametrize("address", ["", ":", "host", "127.0.0.1:", "127.0.0.1:x", "127.0.0.1:65536", "127.0.0.1:-1"])
def test_an_address_without_a_valid_port_is_refused(address: str) -> None:
    with pytest.raises(ConfigError, match="accepted: host:port with a port of 0 to 65535") as caught:
        require_free(address, named="--port")
    assert caught.value.field == "port"


@pytest.mark.parametrize("host", ["\x80", "a\x00b", "x" * 300, "no.such.host.invalid"])
def test_a_host_that_is_no_name_is_refused(host: str) -> None:
    with pytest.raises(ConfigError, match="cannot be bound"):
        require_free(f"{host}:0", named="listen")


def test_port_0_is_free() -> None:
    require_free("127.0.0.1:0", named="listen")


@pytest.mark.parametrize(
    ("address", "host", "port"),
    [("[::1]:7700", "::1", "7700"), ("[::]:0", "::", "0"), ("10.0.0.1:1", "10.0.0.1", "1"), ("a.svc:2", "a.svc", "2")],
)
def test_a_host_is_parted_from_its_port_and_joined_again(address: str, host: str, port: str) -> None:
    assert split(address) == (host, port)
    assert joined(host, port) == address
    assert with_port(address, 9) == joined(host, 9)


async def test_addresses_of_a_name_can_be_dialled() -> None:
    assert await resolved(["[::1]:7700", "127.0.0.1:7700"]) == ["127.0.0.1:7700", "[::1]:7700"]


@pytest.mark.parametrize("listen", ["[::1]:0", "[::]:0"])
def test_ipv6_addresses_are_bound_and_announced_in_brackets(listen: str) -> None:
    require_free(listen, named="listen")
    with bind(listen) as bound:
        host, port = split(address_of(bound))
        assert listen == f"[{host}]:0"
        socket.create_connection(("::1", int(port))).close()


def test_all_addresses_are_those_of_ipv4_too() -> None:
    with listener("::", 0) as bound:
        socket.create_connection(("127.0.0.1", bound.getsockname()[1])).close()


def test_without_ipv6_all_addresses_are_those_of_ipv4(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "has_dualstack_ipv6", lambda: False)
    with listener("::", 0) as bound:
        assert bound.family == socket.AF_INET


@pytest.mark.parametrize(
    ("endpoint", "local"),
    [
        ("127.0.0.1:7700", True),
        ("127.8.0.1:7700", True),
        ("[::1]:7700", True),
        ("localhost:7700", True),
        ("unix:/run/x", True),
        ("10.0.0.1:7700", False),
        ("localhost.example:7700", False),
        ("[fd00::1]:7700", False),
        ("gateway.example:7700", False),
    ],
)
def test_what_stays_on_this_machine_is_known(endpoint: str, local: bool) -> None:
    assert is_local(endpoint) is local
