"""Wraps every call: authorizes the caller, limits what it uses, converts errors to status and counts calls."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import grpc
from google.protobuf.message import DecodeError

from tlt_common.errors import InvalidRequestError, TltError, UnavailableError
from tlt_common.rpc.access import Access, authorization_in, caller_name, caller_of
from tlt_common.rpc.drain import Drain
from tlt_common.rpc.errors import CODES, metadata
from tlt_common.rpc.limits import Limits, Usage
from tlt_common.telemetry import metrics
from tlt_common.telemetry.log import get_logger

log = get_logger(__name__)

READ_OUT_S = 30.0
"""Seconds for which the rest of a failed call's requests is read. A caller that sends longer gets INTERNAL."""


HEALTH = "/grpc.health."
"""Open to everyone: probes have no credentials."""


class CallInterceptor(grpc.aio.ServerInterceptor):
    """
    Authorizes calls with `access` and converts TltErrors to status with reason and field.

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
        call = _Call(self._access, self._drain, self._usage, service.rpartition(".")[2], method)
        if not self._access.recognizes(authorization_in(handler_call_details.invocation_metadata)):
            return _unread(call)
        if handler.response_streaming:
            return _streaming(handler, call)
        return _single(handler, call)


class _Call:
    def __init__(self, access: Access, drain: Drain, usage: Usage, service: str, method: str) -> None:
        self._access = access
        self._drain = drain
        self._usage = usage
        self._service = service
        self._method = method

    @contextmanager
    def admitted(self, request: Any, context: grpc.aio.ServicerContext[Any, Any], *, streams: bool) -> Iterator[Any]:
        """
        Check that the caller is authorized and within its limits, and that the server is not draining.

        Yield the request, which is an iterator if the caller `streams`.

        Raises:
            TltError: The call is refused.
        """
        caller = self._access.admit(caller_of(context, service=self._service, method=self._method), request)
        caller_name.set(caller)
        with self._usage.call(caller), self._drain.call(self._method):
            yield self._usage.metered(caller, request) if streams else request

    def done(self, code: str = "OK") -> None:
        metrics.RPC_CALLS.labels(service=self._service, method=self._method, code=code).inc()

    async def fail(self, context: grpc.aio.ServicerContext[Any, Any], error: Exception) -> None:
        if not isinstance(error, TltError):
            log.error("call_failed", service=self._service, method=self._method, exc_info=error)
            error = TltError(f"{type(error).__name__} in {self._service}.{self._method}; see the service's log")
        code = CODES[type(error)]
        self.done(code.name)
        await context.abort(code, error.message, metadata(error))


def _unread(call: _Call) -> grpc.RpcMethodHandler[Any, Any]:
    """
    Return a handler that refuses a call without a valid token.

    It takes a stream, whatever the method takes, since gRPC reads a single message before it calls the handler.
    """

    async def refuse(request: Any, context: grpc.aio.ServicerContext[Any, Any]) -> AsyncIterator[Any]:
        try:
            with call.admitted(request, context, streams=True):
                raise UnavailableError("the token became valid during the call; repeat it")
        except TltError as error:
            await call.fail(context, error)
        yield  # makes this a generator: a stream without messages

    return grpc.stream_stream_rpc_method_handler(refuse)


def _streaming(handler: Any, call: _Call) -> grpc.RpcMethodHandler[Any, Any]:
    inner = handler.stream_stream or handler.unary_stream

    async def stream(encoded: Any, context: grpc.aio.ServicerContext[Any, Any]) -> AsyncIterator[Any]:
        try:
            request = _decoded(handler, encoded)
            with call.admitted(request, context, streams=handler.request_streaming) as admitted:
                async for response in inner(admitted, context):
                    yield response
        except grpc.aio.AbortError:
            raise
        except Exception as error:  # noqa: BLE001 - the one place where errors become status
            await call.fail(context, error)
        else:
            call.done()

    make = grpc.stream_stream_rpc_method_handler if handler.request_streaming else grpc.unary_stream_rpc_method_handler
    return make(stream, None, handler.response_serializer)


async def _read_out(requests: AsyncIterator[Any]) -> None:
    """
    Read and drop the remaining requests of a failed call before its status is sent.

    Otherwise grpc.aio loses the status: a message that is in flight when the status arrives fails with INTERNAL at the
    caller.
    """
    with suppress(TimeoutError):
        async with asyncio.timeout(READ_OUT_S):
            async for _ in requests:
                pass


def _single(handler: Any, call: _Call) -> grpc.RpcMethodHandler[Any, Any]:
    inner = handler.stream_unary or handler.unary_unary

    async def single(encoded: Any, context: grpc.aio.ServicerContext[Any, Any]) -> Any:
        try:
            request = _decoded(handler, encoded)
            with call.admitted(request, context, streams=handler.request_streaming) as admitted:
                response = await inner(admitted, context)
        except grpc.aio.AbortError:
            raise
        except Exception as error:  # noqa: BLE001 - the one place where errors become status
            if handler.request_streaming:
                await _read_out(encoded)
            await call.fail(context, error)
        else:
            call.done()
            return response

    make = grpc.stream_unary_rpc_method_handler if handler.request_streaming else grpc.unary_unary_rpc_method_handler
    return make(single, None, handler.response_serializer)


def _decoded(handler: Any, encoded: Any) -> Any:
    """
    Decode the message of a call, or each of a stream. gRPC would answer a message that is none with UNKNOWN and a trace
    in the log.

    Raises:
        InvalidRequestError: It is not a message of the method's type. For a stream, the iterator raises it.
    """
    if handler.request_streaming:
        return _messages(handler, encoded)
    return _message(handler, encoded)


async def _messages(handler: Any, encoded: AsyncIterator[bytes]) -> AsyncIterator[Any]:
    """Decode a stream. Not a generator expression, which would open the stream at once: gRPC warns of unread ones."""
    async for part in encoded:
        yield _message(handler, part)


def _message(handler: Any, encoded: bytes) -> Any:
    try:
        return handler.request_deserializer(encoded)
    except DecodeError as error:
        raise InvalidRequestError(
            f"the message cannot be decoded: {error}; accepted: a message of the method's type", field="request"
        ) from error
