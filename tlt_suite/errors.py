"""The errors of the client. All are `TltError`s; their `reason` is stable."""

from tlt_common.errors import (
    AbortedError,
    EngineError,
    InvalidRequestError,
    NotFoundError,
    OverloadedError,
    PermissionDeniedError,
    RequestFailedError,
    StaleVersionError,
    TltError,
    UnauthenticatedError,
    UnavailableError,
    WeightsError,
)

__all__ = [
    "AbortedError",
    "EngineError",
    "InvalidRequestError",
    "NotFoundError",
    "OverloadedError",
    "PermissionDeniedError",
    "RequestFailedError",
    "StaleVersionError",
    "TltError",
    "UnauthenticatedError",
    "UnavailableError",
    "WeightsError",
]
