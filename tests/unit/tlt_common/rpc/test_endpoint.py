from pathlib import Path
from typing import Any

import pytest

from tests.fakes.authority import Authority
from tlt_common.client import BlockingClient, Client
from tlt_common.errors import ConfigError
from tlt_common.integrations.trl import TltRollouts

SECRET = "secret-0123456789"  # noqa: S105 - a test's
FAR = "gateway.example:7700"


async def test_a_token_is_not_sent_in_the_clear_unless_told_so() -> None:
    with pytest.raises(ConfigError, match="in plain text") as caught:
        Client(FAR, token=SECRET)
    assert SECRET not in str(caught.value)
    for endpoint, tls in ((FAR, True), (FAR, False), ("localhost:1", None)):
        await Client(endpoint, token=SECRET, tls=tls).aclose()


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"tls": False, "ca": "ca.pem"}, "tls"),
        ({"tls": False, "server_name": "x"}, "tls"),
        ({"ca": "/nowhere/ca.pem"}, "ca"),
        ({"token": "two words"}, "token"),
        ({"token": ""}, "token"),
        ({"token": Path("/nowhere/token")}, "token"),
    ],
)
async def test_options_that_make_no_sense_are_refused(options: dict[str, Any], field: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Client("localhost:7700", **options)
    assert caught.value.field == field


async def test_a_file_that_is_no_authority_is_refused(tmp_path: Path) -> None:
    tls = Authority(tmp_path).issue("gateway")
    with pytest.raises(ConfigError, match="no PEM certificate"):
        Client(FAR, ca=tls.key)


def test_the_blocking_clients_take_the_same_options_and_leave_no_thread_behind() -> None:
    for make in (BlockingClient, lambda endpoint, **options: TltRollouts(endpoint, **options).client):
        with pytest.raises(ConfigError, match="in plain text"):
            make(FAR, token=SECRET)
