"""OpenTelemetry tracing. The only module that uses OpenTelemetry; while tracing is disabled, it is not imported."""

from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import grpc

from tlt_common import __version__
from tlt_common.domain.ids import PolicyVersion, RequestId
from tlt_common.domain.response import TokenChunk
from tlt_common.errors import ConfigError, TltError

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import SpanProcessor
    from opentelemetry.trace import Span, Tracer

METHODS = frozenset(
    {"Generate", "GenerateBatch", "Abort", "UpdateWeights", "StageWeights", "CommitWeights", "DiscardWeights"}
    | {"PublishDrafter", "SetLending", "Start", "Preempt"}
)
"""Calls that are traced: those initiated by a user. Probes, reports and watches run continuously and are not."""

EXPORT_S = 3.0
"""Export timeout in seconds; also the maximum delay of a service's shutdown while the collector is unreachable."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tracing:
    tracer: "Tracer"
    server: tuple[grpc.aio.ServerInterceptor, ...]
    client: tuple[grpc.aio.ClientInterceptor, ...]


_active: list[_Tracing] = []
"""The process's tracing, for all tasks and threads; the last entry is in use."""


@contextmanager
def traced(endpoint: str, component: str) -> Iterator[None]:
    """
    Export spans of servers and channels created within the block to an OTLP/gRPC collector; an empty endpoint disables
    it.

    Raises:
        ConfigError: OpenTelemetry is not installed.
    """
    if not endpoint:
        yield
        return
    try:
        from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
        from opentelemetry.instrumentation import grpc as _instrumentation  # noqa: F401 - fails here if missing, not later
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as error:
        raise ConfigError(
            "traces requires OpenTelemetry; install it with: pip install 'tlt-suite[traces]'", field="traces"
        ) from error
    # As all gRPC of the suite: a company's proxy does not know a collector beside it.
    direct: Any = (("grpc.enable_http_proxy", 0),)  # annotated there as texts only
    insecure = endpoint.startswith("http:")
    exporter = OTLPSpanExporter(endpoint=endpoint, insecure=insecure, timeout=EXPORT_S, channel_options=direct)
    with traced_by(BatchSpanProcessor(exporter), component):
        yield


@contextmanager
def traced_by(processor: "SpanProcessor", component: str) -> Iterator[None]:
    """Pass spans of servers and channels created within the block to `processor`."""
    from opentelemetry.instrumentation.grpc import aio_client_interceptors, aio_server_interceptor
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider

    resource = Resource.create({"service.name": f"tlt-{component}", "service.version": __version__})
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    provider.add_span_processor(processor)
    tracing = _Tracing(
        tracer=provider.get_tracer(__name__),
        server=(aio_server_interceptor(tracer_provider=provider, filter_=_is_traced),),
        client=tuple(aio_client_interceptors(tracer_provider=provider, filter_=_is_traced)),
    )
    _active.append(tracing)
    try:
        yield
    finally:
        _active.remove(tracing)
        provider.shutdown()


def server_interceptors() -> tuple[grpc.aio.ServerInterceptor, ...]:
    """Return interceptors that trace incoming calls. Install them first, so that spans contain the status."""
    return _active[-1].server if _active else ()


def client_interceptors() -> tuple[grpc.aio.ClientInterceptor, ...]:
    """Return interceptors that trace outgoing calls and propagate their context."""
    return _active[-1].client if _active else ()


@contextmanager
def call_span(method: str, *, parent: str | None = None) -> Iterator[str]:
    """
    Record the block as a span, for calls that share a stream. With the caller's trace context as `parent`, it is the
    server's span and the current one within the block; otherwise the client's.

    Yields:
        The span's trace context, to be passed to the server; empty while tracing is disabled.
    """
    if not _active:
        yield ""
        return
    from opentelemetry.trace import SpanKind, Status, StatusCode, set_span_in_context, use_span
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    propagator, carrier = TraceContextTextMapPropagator(), dict[str, str]()
    context = None if parent is None else propagator.extract({"traceparent": parent})
    kind = SpanKind.CLIENT if parent is None else SpanKind.SERVER
    span = _active[-1].tracer.start_span(method, context, kind=kind)
    propagator.inject(carrier, set_span_in_context(span))
    try:
        if parent is None:  # a block that yields must not change the context of its reader
            yield carrier["traceparent"]
        else:
            with use_span(span, record_exception=False, set_status_on_exception=False):
                yield carrier["traceparent"]
    except TltError as error:
        span.set_status(Status(StatusCode.ERROR, error.reason))
        raise
    finally:
        span.end()


def record_response(
    chunks: AsyncGenerator[TokenChunk, None], request_id: RequestId
) -> AsyncGenerator[TokenChunk, None]:
    """Record a response's size and versions, never its tokens, on the call's span. Closing it closes `chunks`."""
    return _recorded(chunks, request_id) if _active else chunks


async def _recorded(
    chunks: AsyncGenerator[TokenChunk, None], request_id: RequestId
) -> AsyncGenerator[TokenChunk, None]:
    from opentelemetry.trace import get_current_span

    response = _Response(get_current_span(), request_id)
    try:
        async with aclosing(chunks):
            async for chunk in chunks:
                response.take(chunk)
                yield chunk
    finally:
        response.record()


class _Response:
    def __init__(self, span: "Span", request_id: RequestId) -> None:
        self._span = span
        self._request_id = request_id
        self._worker_id = ""
        self._tokens = 0
        self._versions: set[PolicyVersion] = set()

    def take(self, chunk: TokenChunk) -> None:
        self._request_id = self._request_id or chunk.request_id
        self._tokens += len(chunk.token_ids)
        self._versions.update(chunk.policy_versions)
        if chunk.stats is not None:
            self._worker_id = chunk.stats.worker_id
        self.record()  # with each chunk: the call's span may end before this generator is closed

    def record(self) -> None:
        if self._span.is_recording():
            self._span.set_attribute("tlt.request_id", self._request_id)
            self._span.set_attribute("tlt.tokens", self._tokens)
            self._span.set_attribute("tlt.policy_versions", sorted(self._versions))
            self._span.set_attribute("tlt.worker_id", self._worker_id)


def _is_traced(call: Any) -> bool:
    """Whether a call is traced. Clients pass its method as bytes."""
    method = call.method.decode() if isinstance(call.method, bytes) else call.method
    service, _, name = method.rpartition("/")
    return service.startswith("/tlt.") and name in METHODS
