"""Traces by OpenTelemetry, whose only home this is. While they are off nothing of it is imported."""

from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import grpc

from tlt_common import __version__
from tlt_common.domain.ids import PolicyVersion, RequestId
from tlt_common.domain.rollout import TokenChunk
from tlt_common.errors import ConfigError

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import SpanProcessor
    from opentelemetry.trace import Span

METHODS = frozenset(
    {"Generate", "GenerateBatch", "Abort", "UpdateWeights", "StageWeights", "CommitWeights", "DiscardWeights"}
    | {"ApplyDrafter", "PublishDrafter", "SetLending", "Start", "Preempt"}
)
"""Calls that become spans: those somebody asked for. Probes, reports and watches come by the clock, all the time."""

EXPORT_S = 3.0
"""Time that a collector has to take spans in; also how much longer a service may take to end while it is away."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tracing:
    server: tuple[grpc.aio.ServerInterceptor, ...]
    client: tuple[grpc.aio.ClientInterceptor, ...]


_active: list[_Tracing] = []
"""Of the process, for what runs in any task or thread; the last one counts."""


@contextmanager
def traced(endpoint: str, component: str) -> Iterator[None]:
    """
    Send spans of servers and channels made within to an OTLP/gRPC collector; an empty endpoint: none are made.

    Raises:
        ConfigError: OpenTelemetry is not installed.
    """
    if not endpoint:
        yield
        return
    try:
        from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
        from opentelemetry.instrumentation import grpc as _instrumentation  # noqa: F401 - to miss it here, not later
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as error:
        raise ConfigError("traces needs OpenTelemetry: pip install 'tlt[traces]'", field="traces") from error
    exporter = OTLPSpanExporter(endpoint=endpoint, insecure=endpoint.startswith("http:"), timeout=EXPORT_S)
    with traced_by(BatchSpanProcessor(exporter), component):
        yield


@contextmanager
def traced_by(processor: "SpanProcessor", component: str) -> Iterator[None]:
    """Hand spans of servers and channels made within to `processor`."""
    from opentelemetry.instrumentation.grpc import aio_client_interceptors, aio_server_interceptor
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider

    resource = Resource.create({"service.name": f"tlt-{component}", "service.version": __version__})
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    provider.add_span_processor(processor)
    tracing = _Tracing(
        server=(aio_server_interceptor(tracer_provider=provider, filter_=_wanted),),
        client=tuple(aio_client_interceptors(tracer_provider=provider, filter_=_wanted)),
    )
    _active.append(tracing)
    try:
        yield
    finally:
        _active.remove(tracing)
        provider.shutdown()


def server_interceptors() -> tuple[grpc.aio.ServerInterceptor, ...]:
    """Return what makes spans of the calls a server takes; they go first, so that a span has the call's status."""
    return _active[-1].server if _active else ()


def client_interceptors() -> tuple[grpc.aio.ClientInterceptor, ...]:
    """Return what makes spans of the calls of a channel, and sends their context along."""
    return _active[-1].client if _active else ()


def told(chunks: AsyncGenerator[TokenChunk, None], request_id: RequestId) -> AsyncGenerator[TokenChunk, None]:
    """Say on the running call's span what its response came to, never its tokens. Closing it closes `chunks`."""
    return _told(chunks, request_id) if _active else chunks


async def _told(chunks: AsyncGenerator[TokenChunk, None], request_id: RequestId) -> AsyncGenerator[TokenChunk, None]:
    from opentelemetry.trace import get_current_span

    response = _Response(get_current_span(), request_id)
    try:
        async with aclosing(chunks):
            async for chunk in chunks:
                response.take(chunk)
                yield chunk
    finally:
        response.tell()


class _Response:
    def __init__(self, span: "Span", request_id: RequestId) -> None:
        self._span = span
        self._request_id = request_id
        self._worker_id = ""
        self._tokens = 0
        self._versions: set[PolicyVersion] = set()

    def take(self, chunk: TokenChunk) -> None:
        self._request_id = chunk.request_id or self._request_id
        self._tokens += len(chunk.token_ids)
        self._versions.update(chunk.policy_versions)
        if chunk.stats is not None:
            self._worker_id = chunk.stats.worker_id
        if chunk.finish_reason is not None:
            self.tell()  # the last chunk may be handed on before this generator gets to its end

    def tell(self) -> None:
        if self._span.is_recording():
            self._span.set_attribute("tlt.request_id", self._request_id)
            self._span.set_attribute("tlt.tokens", self._tokens)
            self._span.set_attribute("tlt.policy_versions", sorted(self._versions))
            self._span.set_attribute("tlt.worker_id", self._worker_id)


def _wanted(call: Any) -> bool:
    """Whether a call becomes a span. Clients name its method in bytes."""
    method = call.method.decode() if isinstance(call.method, bytes) else call.method
    service, _, name = method.rpartition("/")
    return service.startswith("/tlt.") and name in METHODS
