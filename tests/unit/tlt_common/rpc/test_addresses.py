"""Addresses are checked before anything starts."""

import pytest

from tlt_common.errors import ConfigError
from tlt_common.rpc.addresses import require_free


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
