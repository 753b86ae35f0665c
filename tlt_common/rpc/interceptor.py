"""What happens around every call: callers are admitted, errors become status, calls are counted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import grpc

from tlt_common.errors import TltError
from tlt_common.rpc.access import Access, caller_of
from tlt_common.rpc.drain import Drain
from tlt_common.rpc.errors import CODES, metadata
from tlt_common.telemetry import metrics
from tlt_common.telemetry.log import get_logger

log = get_logger(__name__)

READ_OUT_S = 30.0
"""A caller that sends longer than this after its call failed has to do with INTERNAL."""


HEALTH = "/grpc.health."
"""Free for everybody, for probes have no credentials."""


class CallInterceptor(grpc.aio.ServerInterceptor):
    """
    Asks `access` who may call, and turns our errors into status with reason and field.

    An error that is not ours is a defect and is logged as such.
    """

    def __init__(self, access: Access, drain: Drain) -> None:
        self._access = access
        self._drain = drain

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[grpc.RpcMethodHandler[Any, Any] | None]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> grpc.RpcMethodHandler[Any, Any] | None:
        """Wrap the handler of one call."""
        handler = await continuation(handler_call_details)
        if handler is None or handler_call_details.method.startswith(HEALTH):
            return handler
        _, service, method = handler_call_details.method.split("/")
        call = _Call(self._access, self._drain, service.rpartition(".")[2], method)
        if handler.response_streaming:
            return _streaming(handler, call)
        return _single(handler, call)


class _Call:
    def __init__(self, access: Access, drain: Drain, service: str, method: str) -> None:
        self._access = access
        self._drain = drain
        self._service = service
        self._method = method

    @contextmanager
    def admitted(self, request: Any, context: grpc.aio.ServicerContext[Any, Any]) -> Iterator[None]:
        """
        Ask whether the caller may, and whether anything is begun any more. `request` may be an iterator of requests.

        Raises:
            TltError: No.
        """
        self._access.admit(caller_of(context, service=self._service, method=self._method), request)
        with self._drain.call(self._method):
            yield

    def done(self, code: str = "OK") -> None:
        metrics.RPC_CALLS.labels(service=self._service, method=self._method, code=code).inc()

    async def fail(self, context: grpc.aio.ServicerContext[Any, Any], error: Exception) -> None:
        if not isinstance(error, TltError):
            log.error("call_failed", service=self._service, method=self._method, exc_info=error)
            error = TltError(f"{type(error).__name__} in {self._service}.{self._method}; see the service's log")
        code = CODES[type(error)]
        self.done(code.name)
        await context.abort(code, error.message, metadata(error))


def _streaming(handler: Any, call: _Call) -> grpc.RpcMethodHandler[Any, Any]:
    inner = handler.stream_stream or handler.unary_stream

    async def stream(request: Any, context: grpc.aio.ServicerContext[Any, Any]) -> AsyncIterator[Any]:
        try:
            with call.admitted(request, context):
                async for response in inner(request, context):
                    yield response
        except grpc.aio.AbortError:
            raise
        except Exception as error:  # noqa: BLE001 - the one place where errors become status
            await call.fail(context, error)
        else:
            call.done()

    make = grpc.stream_stream_rpc_method_handler if handler.request_streaming else grpc.unary_stream_rpc_method_handler
    return make(stream, handler.request_deserializer, handler.response_serializer)


async def _read_out(requests: AsyncIterator[Any]) -> None:
    """
    Drop what a caller still sends, before it is told the status.

    grpc.aio loses the status otherwise: a message that is on its way when it comes fails with INTERNAL at the caller.
    """
    with suppress(TimeoutError):
        async with asyncio.timeout(READ_OUT_S):
            async for _ in requests:
                pass


def _single(handler: Any, call: _Call) -> grpc.RpcMethodHandler[Any, Any]:
    inner = handler.stream_unary or handler.unary_unary

    async def single(request: Any, context: grpc.aio.ServicerContext[Any, Any]) -> Any:
        try:
            with call.admitted(request, context):
                response = await inner(request, context)
        except grpc.aio.AbortError:
            raise
        except Exception as error:  # noqa: BLE001 - the one place where errors become status
            if handler.request_streaming:
                await _read_out(request)
            await call.fail(context, error)
        else:
            call.done()
            return response

    make = grpc.stream_unary_rpc_method_handler if handler.request_streaming else grpc.unary_unary_rpc_method_handler
    return make(single, handler.request_deserializer, handler.response_serializer)
