import asyncio
import http.client
import json
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.fakes.authority import Authority
from tlt_common.config.base import ServiceConfig
from tlt_common.errors import ConfigError
from tlt_common.rpc.app import exposed
from tlt_common.rpc.probes.operations import MAX_CONNECTIONS, answering
from tlt_common.rpc.probes.readiness import DRAINING, Readiness
from tlt_common.rpc.security.certificates import certificates
from tlt_common.rpc.server import serving
from tlt_common.telemetry import metrics

HOST = "127.0.0.1"


@pytest.fixture
def readiness() -> Readiness:
    return Readiness()


@pytest.fixture
def port(readiness: Readiness) -> Iterator[int]:
    with answering(HOST, 0, readiness) as bound:
        yield bound


def answer(connection: http.client.HTTPConnection, path: str, method: str = "GET") -> tuple[int, str]:
    try:
        connection.request(method, path)
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()


def get(port: int, path: str, method: str = "GET") -> tuple[int, str]:
    return answer(http.client.HTTPConnection(HOST, port, timeout=10), path, method)


def test_metrics_are_those_of_the_process(port: int) -> None:
    metrics.WINDOWS_DROPPED.inc()
    status, text = get(port, "/metrics")
    assert status == 200
    assert "tlt_worker_windows_dropped_total" in text


def test_a_process_that_starts_lives_and_is_not_ready(port: int) -> None:
    assert get(port, "/livez")[0] == 200
    status, text = get(port, "/readyz")
    assert (status, text) == (503, "not ready: starting\n")


def test_readiness_follows_the_service(port: int, readiness: Readiness) -> None:
    readiness.waits_for = ""
    assert get(port, "/readyz")[0] == 200
    readiness.waits_for = DRAINING
    assert get(port, "/readyz") == (503, "not ready: draining\n")
    assert get(port, "/livez")[0] == 200


def test_other_paths_and_methods_are_told_what_there_is(port: int) -> None:
    assert get(port, "/") == (404, "unknown path /; accepted: /metrics, /livez and /readyz\n")
    assert get(port, "/readyz", "POST")[0] == 405
    assert get(port, "/livez", "HEAD") == (200, "")


def test_a_silent_caller_keeps_nobody_waiting(port: int) -> None:
    with socket.create_connection((HOST, port)):
        assert get(port, "/livez")[0] == 200


def test_with_certificates_it_is_https_and_a_renewed_one_is_used(tmp_path: Path, readiness: Readiness) -> None:
    authority = Authority(tmp_path)
    tls = authority.issue("cache")

    def shown(port: int) -> bytes | None:
        with (
            socket.create_connection((HOST, port)) as plain,
            authority.client().wrap_socket(plain, server_hostname="cache.tlt.internal") as encrypted,
        ):
            return encrypted.getpeercert(binary_form=True)

    with answering(HOST, 0, readiness, certificates(tls)) as port:
        https = http.client.HTTPSConnection(HOST, port, timeout=10, context=authority.client())
        assert answer(https, "/livez")[0] == 200
        first = shown(port)
        authority.issue("cache")
        assert shown(port) not in {None, first}
        stranger = http.client.HTTPSConnection(HOST, port, timeout=10, context=ssl.create_default_context())
        with pytest.raises(ssl.SSLCertVerificationError):
            stranger.connect()
        with pytest.raises((http.client.HTTPException, OSError)):
            get(port, "/livez")  # plain text


def test_a_taken_port_is_named(port: int) -> None:
    with pytest.raises(ConfigError) as caught, exposed(ServiceConfig(listen=f"{HOST}:0", metrics_port=port)):
        pass
    assert caught.value.field == "metrics_port"


async def test_a_process_is_ready_while_its_server_takes_calls(tmp_path: Path) -> None:
    config = ServiceConfig(metrics_port=0, port_file=tmp_path / "ports.json")
    with exposed(config):
        async with serving(config.listen):
            port = int(json.loads((tmp_path / "ports.json").read_text())["metrics"].rpartition(":")[2])
            assert await asyncio.to_thread(get, port, "/readyz") == (200, "ready\n")
        assert (await asyncio.to_thread(get, port, "/readyz"))[0] == 503


def test_tls_files_are_checked_even_without_operations(tmp_path: Path) -> None:
    tls = Authority(tmp_path).issue("cache")
    tls.key.unlink()
    with pytest.raises(ConfigError, match=r"tls\.key"), exposed(ServiceConfig(tls=tls)):
        pass


def test_it_listens_on_ipv6_too(readiness: Readiness) -> None:
    with answering("::", 0, readiness) as port:
        for host in ("::1", "127.0.0.1"):
            status, _ = answer(http.client.HTTPConnection(host, port, timeout=10), "/metrics")
            assert status == http.HTTPStatus.OK


def test_silent_connections_do_not_keep_others_out(port: int) -> None:
    threads = threading.active_count()
    with ExitStack() as crowd:
        for _ in range(4 * MAX_CONNECTIONS):
            silent = crowd.enter_context(socket.create_connection((HOST, port)))
            silent.send(b"GET /livez HTTP/1.1\r\n")
        assert get(port, "/livez") == (200, "alive\n")
        assert threading.active_count() <= threads + MAX_CONNECTIONS + 1


def test_a_connection_that_drips_is_cut(readiness: Readiness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tlt_common.rpc.probes.operations.CONNECTION_S", 0.0)
    with answering(HOST, 0, readiness) as bound, socket.create_connection((HOST, bound)) as slow:
        slow.settimeout(10)
        assert slow.recv(1) == b""
