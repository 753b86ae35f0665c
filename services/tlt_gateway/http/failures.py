"""Errors as HTTP responses."""

from collections.abc import Mapping
from http import HTTPStatus

from fastapi import Request
from fastapi.responses import JSONResponse
from pydantic import JsonValue

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
    """Return the status code of an error: that of its nearest kind, or 500."""
    return next((int(_STATUS[kind]) for kind in type(error).__mro__ if kind in _STATUS), 500)


def content_of(error: TltError) -> dict[str, JsonValue]:
    """Return the body of an error, in the form of SGLang and OpenAI."""
    found: dict[str, JsonValue] = {"message": error.message, "type": error.reason, "code": status_of(error)}
    return {"error": found | ({"param": error.field} if error.field else {})}


async def answer(_request: Request, error: Exception) -> JSONResponse:
    """Return the response to a call that failed with a TltError."""
    assert isinstance(error, TltError)  # noqa: S101 - registered for this class
    headers = {}
    if isinstance(error, OverloadedError):
        headers["Retry-After"] = str(max(1, round(error.retry_after_s)))
    if isinstance(error, UnauthenticatedError):
        headers["WWW-Authenticate"] = "Bearer"
    return JSONResponse(content_of(error), status_of(error), headers)


async def too_large(_request: Request, error: Exception) -> JSONResponse:
    """Return the response to a call whose body is too large, the rest of which is not read."""
    found = {"message": str(error), "type": InvalidRequestError.reason, "code": 413, "param": "body"}
    return JSONResponse({"error": found}, HTTPStatus.REQUEST_ENTITY_TOO_LARGE, {"Connection": "close"})
