"""Proxies that the environment names are for the web; only `TLT_PROXY` is for gateways."""

from pathlib import Path

import pytest

from tests.fakes.connect_proxy import ConnectProxy
from tests.fakes.worker import FakeWorker
from tests.integration.gateway.conftest import Start
from tlt_common.client import Client, SamplingParams
from tlt_common.errors import ConfigError
from tlt_common.rpc.channel import connect

WEB = [name for lower in ("http_proxy", "https_proxy", "grpc_proxy", "all_proxy") for name in (lower, lower.upper())]
TWO = SamplingParams(max_new_tokens=2)


@pytest.fixture(autouse=True)
def _no_exceptions(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("no_proxy", "NO_PROXY", "no_grpc_proxy", "TLT_PROXY"):
        monkeypatch.delenv(name, raising=False)


async def test_the_webs_proxies_are_never_asked(
    start: Start, worker: FakeWorker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "token").write_text("unused")
    async with ConnectProxy() as proxy:
        for name in WEB:
            monkeypatch.setenv(name, proxy.url)
        async with start(worker) as near:
            assert (await near.generate([5], TWO)).token_ids == (6, 7)
            async with Client(near.endpoint, tls=False, token=tmp_path / "token") as known:
                assert (await known.generate([5], TWO)).token_ids == (6, 7)
        assert not proxy.asked


async def test_the_suites_proxy_is_asked_for_what_is_not_on_this_machine(
    start: Start, worker: FakeWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with start(worker) as near, ConnectProxy() as proxy:
        monkeypatch.setenv("TLT_PROXY", proxy.url)
        assert (await near.generate([5], TWO)).token_ids == (6, 7)
        port = near.endpoint.rpartition(":")[2]
        async with Client(f"gateway.invalid:{port}") as far:
            assert (await far.generate([5], TWO)).token_ids == (6, 7)
        assert set(proxy.asked) == {f"gateway.invalid:{port}"}


@pytest.mark.parametrize(
    "proxy", ["proxy", "proxy:3128", "https://user:hidden@proxy:1", "http://proxy", "http://:80", "http://p:x"]
)
def test_a_proxy_that_grpc_cannot_use_is_refused(proxy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TLT_PROXY", proxy)
    with pytest.raises(ConfigError, match="accepted: http://host:port") as caught:
        connect("gateway.invalid:7700")
    assert caught.value.field == "TLT_PROXY"
    assert "hidden" not in str(caught.value)
