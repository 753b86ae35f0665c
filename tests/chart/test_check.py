"""The pod of `helm test`: its settings, and how its script evaluates responses."""

import ast
import json
import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest

from tests.chart.rendering import CHART, VALUE_SETS, Object, render
from tests.fakes.authority import Authority

SCRIPT = CHART / "tests/check.py"


def settings_of(values: str) -> Object:
    entries = {entry["name"]: entry.get("value") for entry in render(values).pods["test"].main["env"]}
    settings: Object = json.loads(entries["TLT_CHECK"])
    return settings


@pytest.mark.parametrize("name", VALUE_SETS)
def test_its_addresses_are_those_of_services(name: str) -> None:
    rendered = render(name)
    settings = settings_of(name)
    assert settings["gateway"] == "rl-tlt-gateway.rollouts.svc:7700"
    assert set(settings["operations"]) == {"gateway", "coordinator", "cache", "tuner"}
    for address in settings["operations"].values():
        host, _, port = address.partition(":")
        service = rendered.one("Service", host.removeprefix("rl-tlt-").removesuffix(".rollouts.svc"))
        assert int(port) in {entry["port"] for entry in service["spec"]["ports"]}


@pytest.mark.parametrize("name", VALUE_SETS)
def test_its_files_are_mounted_at_the_configured_paths(name: str) -> None:
    pod = render(name).pods["test"]
    (etc,) = [volume["projected"]["sources"] for volume in pod.spec["volumes"] if volume["name"] == "etc"]
    mounted = {item["path"] for source in etc for item in source.get("secret", {}).get("items", [])}
    settings = settings_of(name)
    assert {Path(settings[key]).name for key in ("ca", "token") if settings[key]} == mounted
    assert pod.main["command"] == ["python", "/etc/tlt/check.py"]
    assert pod.metadata["annotations"]["helm.sh/hook"] == "test"


def test_the_script_arrives_as_it_is() -> None:
    script = render().one("ConfigMap", "test")["data"]["check.py"]
    assert ast.dump(ast.parse(script)) == ast.dump(ast.parse(SCRIPT.read_text()))


class Operations(BaseHTTPRequestHandler):
    """A service's HTTP port whose /readyz and /metrics return what a test sets."""

    answers: dict[str, tuple[int, bytes]]

    def do_GET(self) -> None:
        status, body = self.answers[self.path]
        self.send_response(status)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Suppress logging."""


@pytest.fixture
def check() -> Any:
    spec = spec_from_file_location("tlt_check", SCRIPT)
    assert spec
    assert spec.loader
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def jobs() -> Iterator[HTTPServer]:
    """Where Ray's dashboard would be."""
    with HTTPServer(("127.0.0.1", 0), Operations) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def operations(tmp_path: Path) -> Iterator[HTTPServer]:
    files = Authority(tmp_path).issue("cache")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files.certificate, files.key)
    server = HTTPServer(("127.0.0.1", 0), Operations)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize(
    ("readyz", "metrics", "passes"),
    [
        ((200, b"ok"), (200, b"tlt_uptime 1\n"), True),
        ((503, b"no"), (200, b"tlt_uptime 1\n"), False),
        ((200, b"ok"), (200, b"python_info 1\n"), False),
    ],
)
def test_a_service_passes_when_it_is_ready_and_has_metrics(
    check: Any, operations: HTTPServer, tmp_path: Path, readyz: Any, metrics: Any, *, passes: bool
) -> None:
    Operations.answers = {"/readyz": readyz, "/metrics": metrics}
    address, ca = f"127.0.0.1:{operations.server_port}", tmp_path / "cache" / "ca.crt"
    if passes:
        check.ready("cache", address, ca)
        return
    with pytest.raises(SystemExit, match="cache at 127"):
        check.ready("cache", address, ca)


def test_a_port_of_ray_that_is_closed_passes(check: Any, capsys: pytest.CaptureFixture[str]) -> None:
    with HTTPServer(("127.0.0.1", 0), Operations) as server:
        port = server.server_port
    check.jobs_closed(f"127.0.0.1:{port}", policies=True)
    assert "closed to other pods" in capsys.readouterr().out


@pytest.mark.parametrize("status", [401, 403])
def test_a_job_api_that_refuses_passes_with_a_warning(
    check: Any, jobs: HTTPServer, capsys: pytest.CaptureFixture[str], status: int
) -> None:
    Operations.answers = {"/api/jobs/": (status, b"")}
    check.jobs_closed(f"127.0.0.1:{jobs.server_port}", policies=True)
    assert "does not enforce NetworkPolicies" in capsys.readouterr().out
    check.jobs_closed(f"127.0.0.1:{jobs.server_port}", policies=False)
    assert "WARNING" not in capsys.readouterr().out


def test_a_job_api_that_answers_anybody_fails(check: Any, jobs: HTTPServer) -> None:
    Operations.answers = {"/api/jobs/": (200, b"[]")}
    with pytest.raises(SystemExit, match=r"worker\.rayAuth=token"):
        check.jobs_closed(f"127.0.0.1:{jobs.server_port}", policies=False)


def test_a_head_that_cannot_be_found_fails(check: Any) -> None:
    with pytest.raises(SystemExit, match="cannot be found"):
        check.jobs_closed("head.invalid:8265", policies=True)


def test_a_certificate_for_another_service_is_rejected(check: Any, operations: HTTPServer, tmp_path: Path) -> None:
    Operations.answers = {"/readyz": (200, b""), "/metrics": (200, b"tlt_")}
    with pytest.raises(ssl.SSLCertVerificationError):
        check.ready("gateway", f"127.0.0.1:{operations.server_port}", tmp_path / "cache" / "ca.crt")
