"""Wraps every HTTP call: converts unexpected errors to an answer and counts calls by outcome."""

from collections.abc import Mapping
from http import HTTPStatus

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tlt_common.errors import TltError
from tlt_common.rpc.http.failures import CLIENT_CLOSED, response_to
from tlt_common.telemetry import metrics
from tlt_common.telemetry.log import get_logger

log = get_logger(__name__)

_CODES: Mapping[int, str] = {
    HTTPStatus.UNAUTHORIZED: "UNAUTHENTICATED",
    HTTPStatus.FORBIDDEN: "PERMISSION_DENIED",
    HTTPStatus.NOT_FOUND: "NOT_FOUND",
    HTTPStatus.METHOD_NOT_ALLOWED: "UNIMPLEMENTED",
    HTTPStatus.CONFLICT: "FAILED_PRECONDITION",
    HTTPStatus.TOO_MANY_REQUESTS: "RESOURCE_EXHAUSTED",
    CLIENT_CLOSED: "ABORTED",
    HTTPStatus.SERVICE_UNAVAILABLE: "UNAVAILABLE",
}
"""gRPC's code of a status, so that alerts on calls hold for both protocols."""
UNKNOWN_PATH = "unknown"


def code_of(status: int) -> str:
    """Return gRPC's name of a status code; INTERNAL for server errors."""
    if status < HTTPStatus.BAD_REQUEST:
        return "OK"
    return _CODES.get(status, "INTERNAL" if status >= HTTPStatus.INTERNAL_SERVER_ERROR else "INVALID_ARGUMENT")


def failed(error: Exception, *, service: str, method: str) -> TltError:
    """Log a defect, and return the error for its caller."""
    log.error("call_failed", service=service, method=method, exc_info=error)
    return TltError(f"{type(error).__name__} in {service}{method}; see the service's log")


class CountedCalls:
    """
    An ASGI application around another one.

    Args:
        app: The application. Errors that it does not handle itself are defects.
        service: Its name in metrics.
    """

    def __init__(self, app: ASGIApp, *, service: str) -> None:
        self._app = app
        self._service = service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        status = 0

        async def noted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, noted)
        except Exception as error:  # the one place where HTTP's errors become status
            if status:
                status = HTTPStatus.INTERNAL_SERVER_ERROR
                failed(error, service=self._service, method=_method(scope))
                raise  # the connection is cut: a part of the answer has been sent
            answer = response_to(failed(error, service=self._service, method=_method(scope)))
            await answer(scope, receive, noted)
        finally:
            if status:
                code = scope.get("state", {}).get(ENDED_WITH) or code_of(status)
                metrics.RPC_CALLS.labels(service=self._service, method=_method(scope), code=code).inc()


ENDED_WITH = "tlt_ended_with"
"""In the state of a request: the code of the error that ended its answer after a status had been sent."""


def _method(scope: Scope) -> str:
    """Return the path of the route that served a request, which has few values."""
    route = scope.get("route")
    return str(route.path) if route is not None else UNKNOWN_PATH
