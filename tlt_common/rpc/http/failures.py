"""Errors as HTTP responses: JSON in SGLang's and OpenAI's format, with the field's name and the matching status."""

from collections.abc import Mapping
from http import HTTPStatus

from pydantic import JsonValue
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from tlt_common.errors import (
    AbortedError,
    InvalidRequestError,
    NotFoundError,
    OverloadedError,
    PermissionDeniedError,
    StaleVersionError,
    TltError,
    UnauthenticatedError,
    UnavailableError,
    WeightsError,
)

CLIENT_CLOSED = 499
"""The client hung up, or its request was aborted; nobody else uses this number differently."""
MAX_CHARACTERS = 2000
"""Length at which a message is cut: it may quote what a caller sent."""

_STATUS: Mapping[type[TltError], int] = {
    InvalidRequestError: HTTPStatus.BAD_REQUEST,
    WeightsError: HTTPStatus.BAD_REQUEST,
    UnauthenticatedError: HTTPStatus.UNAUTHORIZED,
    PermissionDeniedError: HTTPStatus.FORBIDDEN,
    NotFoundError: HTTPStatus.NOT_FOUND,
    StaleVersionError: HTTPStatus.CONFLICT,
    OverloadedError: HTTPStatus.TOO_MANY_REQUESTS,
    AbortedError: CLIENT_CLOSED,
    UnavailableError: HTTPStatus.SERVICE_UNAVAILABLE,
}


def status_of(error: TltError) -> int:
    """Return the status code of an error: that of its closest class, or 500."""
    return next((int(_STATUS[kind]) for kind in type(error).__mro__ if kind in _STATUS), 500)


def content_of(error: TltError, status: int | None = None) -> dict[str, JsonValue]:
    """Return the body of an error in SGLang's and OpenAI's format, by default with the status of its class."""
    message = _encodable(error.message[:MAX_CHARACTERS])
    found: dict[str, JsonValue] = {"message": message, "type": error.reason, "code": status or status_of(error)}
    return {"error": found | ({"param": _encodable(error.field)} if error.field else {})}


def response_to(error: TltError, status: int | None = None) -> JSONResponse:
    """Return the response to a failed call, by default with the status of the error's class."""
    headers = {}
    if isinstance(error, OverloadedError):
        headers["Retry-After"] = str(max(1, round(error.retry_after_s)))
    if isinstance(error, UnauthenticatedError):
        headers["WWW-Authenticate"] = "Bearer"
    return JSONResponse(content_of(error, status), status or status_of(error), headers)


def answer_errors(app: Starlette, *, listed_in: str) -> None:
    """Make an application answer every error in this format. `listed_in` names the documentation of its endpoints."""

    async def ours(_request: Request, error: Exception) -> Response:
        assert isinstance(error, TltError)  # noqa: S101 - registered for this class
        return response_to(error)

    async def of_starlette(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)  # noqa: S101 - registered for this class
        what = f"{request.method} {request.url.path:.200}"
        if error.status_code == HTTPStatus.NOT_FOUND:
            return response_to(NotFoundError(f"{what} is not served here; {listed_in} lists what is"))
        found = InvalidRequestError(f"{what}: {error.detail}", field="method" if error.status_code == 405 else "")
        answer = response_to(found, error.status_code)
        answer.headers.update(error.headers or {})
        return answer

    app.add_exception_handler(TltError, ours)
    app.add_exception_handler(HTTPException, of_starlette)


def _encodable(text: str) -> str:
    """Return a text that UTF-8 can encode: a caller's text may have half a surrogate pair."""
    return text.encode(errors="backslashreplace").decode()
