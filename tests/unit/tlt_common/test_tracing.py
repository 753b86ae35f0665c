"""Traces, turned on and off."""

import subprocess
import sys

import grpc
import pytest

from tlt_common.config.loader import load
from tlt_common.errors import ConfigError
from tlt_common.rpc.app import exposed
from tlt_common.telemetry import tracing
from tlt_common.telemetry.tracing import traced
from tlt_tuner.config import TunerConfig

SERVES = """
import asyncio, sys
from tlt_common.rpc.app import exposed
from tlt_common.rpc.channel import connect
from tlt_common.rpc.server import serving
from tlt_gateway.config import GatewayConfig
from tlt_gateway import main

async def serve():
    async with serving("127.0.0.1:0") as server, connect(f"127.0.0.1:{server.port}") as channel:
        await channel.channel_ready()

with exposed(GatewayConfig(traces=sys.argv[1])):
    asyncio.run(serve())
print("opentelemetry" in sys.modules)
"""


@pytest.mark.parametrize(("endpoint", "imported"), [("", "False"), ("http://127.0.0.1:1", "True")])
def test_a_service_without_traces_imports_no_opentelemetry(endpoint: str, imported: str) -> None:
    done = subprocess.run([sys.executable, "-c", SERVES, endpoint], capture_output=True, text=True, check=True)
    assert done.stdout.split()[-1] == imported


def test_a_process_has_interceptors_only_while_it_makes_traces() -> None:
    assert (tracing.server_interceptors(), tracing.client_interceptors()) == ((), ())
    with exposed(TunerConfig(traces="http://127.0.0.1:1")):
        assert isinstance(tracing.server_interceptors()[0], grpc.aio.ServerInterceptor)
        assert all(isinstance(one, grpc.aio.ClientInterceptor) for one in tracing.client_interceptors())
        assert tracing.client_interceptors()
    assert (tracing.server_interceptors(), tracing.client_interceptors()) == ((), ())


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.grpc.trace_exporter", None)
    with (
        pytest.raises(ConfigError, match=r"pip install 'tlt-suite\[traces\]'") as refusal,
        traced("http://c:4317", "tuner"),
    ):
        raise AssertionError
    assert refusal.value.field == "traces"


@pytest.mark.parametrize("endpoint", ["http://c:4317", "https://c.monitoring.svc:4317", "http://[::1]:4317"])
def test_a_collector_is_a_url_with_a_port(endpoint: str) -> None:
    assert TunerConfig(traces=endpoint).traces == endpoint


@pytest.mark.parametrize("endpoint", ["c:4317", "http://c", "grpc://c:4317", "http://c:4317/v1/traces", "http://:1"])
def test_another_endpoint_is_refused_and_named(endpoint: str) -> None:
    with pytest.raises(ConfigError, match="tuner: traces") as refusal:
        load(TunerConfig, "tuner", file=None, environment={"TLT_TUNER_TRACES": endpoint}, settings=())
    assert refusal.value.field == "traces"
