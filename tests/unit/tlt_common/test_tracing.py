"""Traces, turned on and off."""

import subprocess
import sys
from collections.abc import AsyncGenerator

import grpc
import pytest
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from tlt_common.config.loader import load
from tlt_common.domain.ids import PolicyVersion, RequestId
from tlt_common.domain.response import TokenChunk
from tlt_common.errors import ConfigError
from tlt_common.rpc.app import exposed
from tlt_common.telemetry import tracing
from tlt_common.telemetry.tracing import call_span, record_response, traced, traced_by
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


async def test_the_size_of_a_response_is_recorded_although_its_span_ends_before_it_is_closed() -> None:
    """As when a caller hangs up while a chunk is being written: gRPC abandons the response, which is closed later."""

    async def response() -> AsyncGenerator[TokenChunk, None]:
        for token in (1, 2):
            yield TokenChunk(
                request_id=RequestId("r"), token_ids=(token,), logprobs=(0.0,), policy_versions=(PolicyVersion(3),)
            )

    exporter = InMemorySpanExporter()
    with traced_by(SimpleSpanProcessor(exporter), "test"):
        with call_span("Generate", parent=""):
            recorded = record_response(response(), RequestId("r"))
            await anext(recorded)
        await recorded.aclose()
    (span,) = exporter.get_finished_spans()
    expected = {"tlt.request_id": "r", "tlt.tokens": 1, "tlt.policy_versions": (3,), "tlt.worker_id": ""}
    assert dict(span.attributes or {}) == expected


@pytest.mark.parametrize("endpoint", ["http://c:4317", "https://c.monitoring.svc:4317", "http://[::1]:4317"])
def test_a_collector_is_a_url_with_a_port(endpoint: str) -> None:
    assert TunerConfig(traces=endpoint).traces == endpoint


@pytest.mark.parametrize("endpoint", ["c:4317", "http://c", "grpc://c:4317", "http://c:4317/v1/traces", "http://:1"])
def test_another_endpoint_is_refused_and_named(endpoint: str) -> None:
    with pytest.raises(ConfigError, match="tuner: traces") as refusal:
        load(TunerConfig, "tuner", file=None, environment={"TLT_TUNER_TRACES": endpoint}, settings=())
    assert refusal.value.field == "traces"
