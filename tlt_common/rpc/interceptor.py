"""Wraps every call: authorizes the caller, enforces its limits, converts errors to statuses and counts calls."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager, suppress
from typing import Any

import grpc
from google.protobuf.message import DecodeError

from tlt_common.errors import InvalidRequestError, TltError
from tlt_common.rpc.drain import Drain
from tlt_common.rpc.errors import CODES, metadata
from tlt_common.rpc.limits import Limits, Usage, require_few_fields
from tlt_common.rpc.security.access import Access, caller_name, caller_of
from tlt_common.telemetry import metrics
from tlt_common.telemetry.log import get_logger
from tlt_common.wire.texts import require_short_texts

log = get_logger(__name__)

READ_OUT_S = 30.0
"""Seconds for which the rest of a failed call's requests is read. A caller that sends longer gets INTERNAL."""


HEALTH = "/grpc.health."
"""Open to everyone: probes have no credentials."""


class CallInterceptor(grpc.aio.ServerInterceptor):
    """
    Authorizes calls with `access` and converts TltErrors to statuses with reason and field. Messages of unknown callers
    are not read.

    Any other exception is a defect and is logged as an error.
    """

    def __init__(self, access: Access, drain: Drain, limits: Limits) -> None:
        self._access = access
        self._drain = drain
        self._usage = Usage(limits)

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[grpc.RpcMethodHandler[Any, Any] | None]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> grpc.RpcMethodHandler[Any, Any] | None:
        """Wrap the handler of a call."""
        handler = await continuation(handler_call_details)
        if handler is None or handler_call_details.method.startswith(HEALTH):
            return handler
        _, service, method = handler_call_details.method.split("/")
        call = _Call(self._access, self._drain, self._usage, handler, service.rpartition(".")[2], method)
        return _streaming(handler, call) if handler.response_streaming else _single(handler, call)


class _Call:
    def __init__(
        self,
        access: Access,
        drain: Drain,
        usage: Usage,
        handler: grpc.RpcMethodHandler[Any, Any],
        service: str,
        method: str,
    ) -> None:
        self._access = access
        self._drain = drain
        self._usage = usage
        self._handler: Any = handler
        self._service = service
        self._method = method
        self._reads = False

    @asynccontextmanager
    async def admitted(
        self, encoded: AsyncIterator[bytes], context: grpc.aio.ServicerContext[Any, Any]
    ) -> AsyncIterator[Any]:
        """
        Check that the caller is known and within its limits, read the request, and check that the caller may make it
        and that the server is not draining.

        Yield the request, which is an iterator if the caller streams.

        Raises:
            TltError: The call is refused.
        """
        caller = caller_of(context, service=self._service, method=self._method)
        name = self._access.identify(caller)
        caller_name.set(name)
        with self._usage.call(name):
            self._reads = True
            if self._handler.request_streaming:
                encoded = self._usage.metered(name, encoded)
            request = await _decoded(self._handler, encoded)
            self._access.permit(caller, request)
            with self._drain.call(self._method):
                yield request

    @property
    def leaves_requests(self) -> bool:
        """Whether an identified caller's remaining requests must be read before a status is sent."""
        return self._reads and bool(self._handler.request_streaming)

    def done(self, code: str = "OK") -> None:
        metrics.RPC_CALLS.labels(service=self._service, method=self._method, code=code).inc()

    async def fail(self, context: grpc.aio.ServicerContext[Any, Any], error: Exception) -> None:
        if not isinstance(error, TltError):
            log.error("call_failed", service=self._service, method=self._method, exc_info=error)
            error = TltError(f"{type(error).__name__} in {self._service}.{self._method}; see the service's log")
        code = CODES[type(error)]
        self.done(code.name)
        await context.abort(code, error.message, metadata(error))


# Both handlers take a stream, whatever the method takes: gRPC would read a single message, of a size that the caller
# chooses, before it calls the handler.


def _streaming(handler: Any, call: _Call) -> grpc.RpcMethodHandler[Any, Any]:
    inner = handler.stream_stream or handler.unary_stream

    async def stream(encoded: AsyncIterator[bytes], context: grpc.aio.ServicerContext[Any, Any]) -> AsyncIterator[Any]:
        try:
            async with call.admitted(encoded, context) as request:
                async for response in inner(request, context):
                    yield response
        except grpc.aio.AbortError:
            raise
        except Exception as error:  # noqa: BLE001 - the one place where errors become status
            await call.fail(context, error)
        else:
            call.done()

    return grpc.stream_stream_rpc_method_handler(stream, None, handler.response_serializer)


def _single(handler: Any, call: _Call) -> grpc.RpcMethodHandler[Any, Any]:
    inner = handler.stream_unary or handler.unary_unary

    async def single(encoded: AsyncIterator[bytes], context: grpc.aio.ServicerContext[Any, Any]) -> Any:
        try:
            async with call.admitted(encoded, context) as request:
                response = await inner(request, context)
        except grpc.aio.AbortError:
            raise
        except Exception as error:  # noqa: BLE001 - the one place where errors become status
            if call.leaves_requests:
                await _read_out(encoded)
            await call.fail(context, error)
        else:
            call.done()
            return response

    def encoded(response: Any) -> bytes:
        """Serialize a response. A servicer may have serialized it already, in pieces between other calls."""
        return response if isinstance(response, bytes) else handler.response_serializer(response)

    return grpc.stream_unary_rpc_method_handler(single, None, encoded)


async def _read_out(requests: AsyncIterator[Any]) -> None:
    """
    Read and discard the remaining requests of a failed call before its status is sent.

    Otherwise grpc.aio loses the status: a message in flight when the status arrives fails with INTERNAL at the caller.
    """
    with suppress(TimeoutError):
        async with asyncio.timeout(READ_OUT_S):
            async for _ in requests:
                pass


async def _decoded(handler: Any, encoded: AsyncIterator[bytes]) -> Any:
    """
    Read and decode the message of a call, or return an iterator that does so for each message of a stream. gRPC would
    answer an invalid message with UNKNOWN and a traceback in the log.

    Raises:
        InvalidRequestError: There is no message, or it does not have the method's type. For a stream, the iterator
            raises it.
    """
    if handler.request_streaming:
        return _messages(handler, encoded)
    async with aclosing(_messages(handler, encoded)) as messages:
        async for message in messages:
            return message
    raise InvalidRequestError("the call has no message; accepted: one of the method's type", field="request")


async def _messages(handler: Any, encoded: AsyncIterator[bytes]) -> AsyncGenerator[Any, None]:
    """Decode a stream. A generator expression would open the stream immediately, and gRPC warns about unread ones."""
    async for part in encoded:
        yield _message(handler, part)


def _message(handler: Any, encoded: bytes) -> Any:
    require_few_fields(encoded)
    try:
        message = handler.request_deserializer(encoded)
    except DecodeError as error:
        raise InvalidRequestError(
            f"the message cannot be decoded: {error}; accepted: a message of the method's type", field="request"
        ) from error
    require_short_texts(message)
    return message
