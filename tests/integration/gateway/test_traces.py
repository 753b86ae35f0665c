"""Traces: a client's request is a single trace across all services involved."""

import asyncio
import gc
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
import pytest_asyncio
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from tests.fakes.engine import FakeEngine
from tests.fakes.worker import FakeWorker
from tests.integration.gateway.conftest import Start, served
from tlt_common.client import SamplingParams
from tlt_common.domain.request_ids import request_of
from tlt_common.errors import InvalidRequestError
from tlt_common.rpc.app import exposed
from tlt_common.telemetry.tracing import METHODS, traced_by
from tlt_common.wire import coordinator, rollout, trainer
from tlt_common.wire import worker as wire_worker
from tlt_gateway.config import GatewayConfig
from tlt_worker.config import WorkerConfig
from tlt_worker.main import live

FOUR = SamplingParams(max_new_tokens=4)
ROLLOUT, WORKER = "/tlt.rollout.v1.RolloutService/", "/tlt.worker.v1.WorkerService/"
WAY = [
    f"CLIENT {ROLLOUT}Generate",
    f"SERVER {ROLLOUT}Generate",
    f"CLIENT {WORKER}GenerateMany",
    f"SERVER {WORKER}GenerateMany",
]


@pytest.fixture
def spans() -> Iterator[InMemorySpanExporter]:
    """Record all spans of servers and channels created after this fixture."""
    exporter = InMemorySpanExporter()
    with traced_by(SimpleSpanProcessor(exporter), "test"):
        yield exporter


@pytest_asyncio.fixture
async def worker(spans: InMemorySpanExporter) -> AsyncIterator[FakeWorker]:
    async with FakeWorker("w0") as fake:
        yield fake


@asynccontextmanager
async def real_worker(run_dir: Path) -> AsyncIterator[str]:
    """Run a worker over a scripted engine; yield its address."""
    config = WorkerConfig(model=Path("/model"), worker_id="w7", run_dir=run_dir)
    serving: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    running = asyncio.ensure_future(live(config, FakeEngine(), on_serving=serving.set_result))
    try:
        yield await serving
    finally:
        running.cancel()
        await asyncio.wait({running})


def key(span: ReadableSpan) -> str:
    return f"{span.kind.name} {span.name}"


def ways(exporter: InMemorySpanExporter) -> list[list[str]]:
    """Return the paths from the root to each leaf span. All spans must belong to one trace."""
    found = exporter.get_finished_spans()
    assert len({span.context.trace_id for span in found if span.context}) == 1
    by_id = {span.context.span_id: span for span in found if span.context}
    parents = {span.parent.span_id for span in found if span.parent}

    def way(span: ReadableSpan) -> list[str]:
        return [*(way(by_id[span.parent.span_id]) if span.parent else []), key(span)]

    return [way(span) for span_id, span in by_id.items() if span_id not in parents]


def one(exporter: InMemorySpanExporter, name: str) -> ReadableSpan:
    (span,) = (span for span in exporter.get_finished_spans() if key(span) == name)
    return span


async def test_a_rollout_is_one_trace_from_the_client_to_the_worker(
    spans: InMemorySpanExporter, worker: FakeWorker, start: Start
) -> None:
    async with start(worker) as client:
        await client.generate([5], FOUR)
    assert ways(spans) == [WAY]


async def test_samples_of_a_batch_are_branches_of_its_trace(
    spans: InMemorySpanExporter, worker: FakeWorker, start: Start
) -> None:
    async with start(worker) as client:
        async for _ in client.stream_batch([[5], [6]], sampling=FOUR):
            pass
    root = [f"CLIENT {ROLLOUT}GenerateBatch", f"SERVER {ROLLOUT}GenerateBatch"]
    assert ways(spans) == [[*root, *WAY[2:]]] * 2


async def test_spans_say_what_a_response_came_to_and_not_what_is_in_it(
    spans: InMemorySpanExporter, tmp_path: Path
) -> None:
    async with real_worker(tmp_path) as address:
        config = GatewayConfig(workers=(address,))
        async with served(config, workers=1) as client:
            await client.generate([5], FOUR, request_id="r")
    expected = {"tlt.request_id": "r", "tlt.tokens": 4, "tlt.policy_versions": (0,), "tlt.worker_id": "w7"}
    for name in (WAY[1], WAY[3]):
        found = one(spans, name).attributes or {}
        assert {key: value for key, value in found.items() if key.startswith("tlt.")} == expected
        assert not any("token_ids" in key or "prompt" in key for key in found)
    assert one(spans, WAY[3]).resource.attributes["service.name"] == "tlt-test"


async def test_a_refusal_is_on_the_spans_of_whom_it_passed(
    spans: InMemorySpanExporter, worker: FakeWorker, start: Start
) -> None:
    async with start(worker) as client:
        with pytest.raises(InvalidRequestError, match="token_ids"):
            await client.generate([worker.vocab_size], FOUR)
    assert ways(spans) == [WAY[:2]]
    for name in WAY[:2]:
        assert one(spans, name).attributes is not None
        assert (one(spans, name).attributes or {})["rpc.grpc.status_code"] == grpc.StatusCode.INVALID_ARGUMENT.value[0]


@pytest.fixture
def _uncollected() -> Iterator[None]:
    """Free only what is no longer referred to: the garbage collector may not run for minutes."""
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("_uncollected")
async def test_a_client_that_hangs_up_ends_all_its_spans(
    spans: InMemorySpanExporter, worker: FakeWorker, start: Start
) -> None:
    worker.free_tokens = 1
    worker.gate.clear()
    async with start(worker) as client:
        async with aclosing(client.stream([5], FOUR, request_id="left")) as stream:
            await anext(stream)
        await worker.until(running=0)
        async with asyncio.timeout(10):
            while len(spans.get_finished_spans()) < len(WAY):
                await client.info()  # creates no span
    assert ways(spans) == [WAY]
    assert [request_of(name) for name in worker.hung_up] == ["left"]
    assert (one(spans, WAY[1]).attributes or {})["tlt.tokens"] == 1


@pytest.mark.usefixtures("_uncollected")
async def test_a_client_that_leaves_a_batch_ends_all_its_spans(
    spans: InMemorySpanExporter, worker: FakeWorker, start: Start
) -> None:
    worker.free_tokens = 1
    worker.gate.clear()
    async with start(worker) as client:
        reading = asyncio.ensure_future(anext(client.stream_batch([[5], [6]], sampling=FOUR)))
        await worker.until(running=2)
        reading.cancel()
        await worker.until(running=0)
        async with asyncio.timeout(10):
            while len(spans.get_finished_spans()) < 2 + 2 * len(WAY[2:]):
                await client.info()
    root = [f"CLIENT {ROLLOUT}GenerateBatch", f"SERVER {ROLLOUT}GenerateBatch"]
    assert ways(spans) == [[*root, *WAY[2:]]] * 2


class Collector(trace_service_pb2_grpc.TraceServiceServicer):
    """Receives OTLP; records the names of services and spans."""

    def __init__(self) -> None:
        self.taken: set[tuple[str, str]] = set()

    def Export(self, request: Any, context: Any) -> trace_service_pb2.ExportTraceServiceResponse:
        for resource in request.resource_spans:
            (service,) = (
                pair.value.string_value for pair in resource.resource.attributes if pair.key == "service.name"
            )
            self.taken |= {(service, span.name) for scope in resource.scope_spans for span in scope.spans}
        return trace_service_pb2.ExportTraceServiceResponse()


async def test_a_collector_has_all_spans_when_the_service_has_ended() -> None:
    collector, server = Collector(), grpc.server(ThreadPoolExecutor(1))
    trace_service_pb2_grpc.add_TraceServiceServicer_to_server(collector, server)  # type: ignore[no-untyped-call]
    config = GatewayConfig(traces=f"http://127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}")
    server.start()
    async with FakeWorker("w0") as worker:
        with exposed(config):
            async with served(config.model_copy(update={"workers": (worker.address,)}), workers=1) as client:
                await client.generate([5], FOUR)
    server.stop(None)
    assert collector.taken == {("tlt-gateway", name.partition(" ")[2]) for name in WAY}


async def test_what_comes_by_the_clock_is_no_span(
    spans: InMemorySpanExporter, worker: FakeWorker, start: Start
) -> None:
    async with start(worker) as client:  # it polled until the worker was ready
        await client.info()
    assert spans.get_finished_spans() == ()


def test_all_calls_that_become_spans_exist() -> None:
    services = (rollout, wire_worker, coordinator, trainer)
    described = [service.pb.DESCRIPTOR.services_by_name.values() for service in services]
    assert {method.name for found in described for service in found for method in service.methods} >= METHODS
