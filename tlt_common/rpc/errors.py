"""Maps errors to gRPC statuses and back."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import grpc

from tlt_common import errors

REASON_KEY = "tlt-reason"
FIELD_KEY = "tlt-field"
RETRY_KEY = "tlt-retry-after-ms"

CODES: dict[type[errors.TltError], grpc.StatusCode] = {
    errors.InvalidRequestError: grpc.StatusCode.INVALID_ARGUMENT,
    errors.ConfigError: grpc.StatusCode.INVALID_ARGUMENT,
    errors.NotFoundError: grpc.StatusCode.NOT_FOUND,
    errors.StaleEpochError: grpc.StatusCode.FAILED_PRECONDITION,
    errors.StaleVersionError: grpc.StatusCode.FAILED_PRECONDITION,
    errors.WeightsError: grpc.StatusCode.FAILED_PRECONDITION,
    errors.WeightsUnreadableError: grpc.StatusCode.FAILED_PRECONDITION,
    errors.UnauthenticatedError: grpc.StatusCode.UNAUTHENTICATED,
    errors.PermissionDeniedError: grpc.StatusCode.PERMISSION_DENIED,
    errors.OverloadedError: grpc.StatusCode.RESOURCE_EXHAUSTED,
    errors.AbortedError: grpc.StatusCode.ABORTED,
    errors.UnavailableError: grpc.StatusCode.UNAVAILABLE,
    errors.CacheUnavailableError: grpc.StatusCode.UNAVAILABLE,
    errors.HungUpError: grpc.StatusCode.UNAVAILABLE,
    errors.DrainingError: grpc.StatusCode.UNAVAILABLE,
    errors.RequestFailedError: grpc.StatusCode.INTERNAL,
    errors.EngineError: grpc.StatusCode.INTERNAL,
    errors.TltError: grpc.StatusCode.INTERNAL,
}
_TOO_LARGE = "larger than max"
"""In gRPC's own status for a message above the limit of either side."""
_BY_CODE: dict[grpc.StatusCode, type[errors.TltError]] = {
    grpc.StatusCode.UNAVAILABLE: errors.UnavailableError,
    grpc.StatusCode.DEADLINE_EXCEEDED: errors.UnavailableError,
    grpc.StatusCode.CANCELLED: errors.AbortedError,
    grpc.StatusCode.RESOURCE_EXHAUSTED: errors.OverloadedError,
    grpc.StatusCode.INVALID_ARGUMENT: errors.InvalidRequestError,
    grpc.StatusCode.NOT_FOUND: errors.NotFoundError,
    grpc.StatusCode.UNAUTHENTICATED: errors.UnauthenticatedError,
    grpc.StatusCode.PERMISSION_DENIED: errors.PermissionDeniedError,
}


def metadata(error: errors.TltError) -> tuple[tuple[str, str], ...]:
    """Return the trailing metadata that carries an error's reason and field."""
    pairs = ((REASON_KEY, error.reason), (FIELD_KEY, error.field))
    if isinstance(error, errors.OverloadedError):
        return (*pairs, (RETRY_KEY, str(round(error.retry_after_s * 1000))))
    return pairs


def from_status(error: grpc.aio.AioRpcError) -> errors.TltError:
    """Return the error from which a status was created. Other statuses are mapped by code."""
    trailing = {key: value for key, value in error.trailing_metadata() or () if isinstance(value, str)}
    kind = errors.BY_REASON.get(trailing.get(REASON_KEY, "")) or _BY_CODE.get(error.code(), errors.TltError)
    message = error.details() or error.code().name
    if REASON_KEY not in trailing and _TOO_LARGE in message:  # RESOURCE_EXHAUSTED, but no retry makes it smaller
        kind = errors.InvalidRequestError
    field = trailing.get(FIELD_KEY, "")
    if kind is errors.OverloadedError:
        retry_after_s = int(trailing.get(RETRY_KEY, "1000")) / 1000
        return errors.OverloadedError(message, field=field, retry_after_s=retry_after_s)
    return kind(message, field=field)


_CONNECTION_CODES = frozenset(
    {
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.CANCELLED,  # by the server, which stops: a task that is cancelled itself gets CancelledError
        grpc.StatusCode.UNKNOWN,
        grpc.StatusCode.INTERNAL,  # a reset of the stream by a proxy
    }
)


_DISTRUST = ("CERTIFICATE_VERIFY_FAILED", "Hostname Verification Check failed")
"""Texts of gRPC about a server whose certificate is not accepted. The code is UNAVAILABLE as for one that is down."""


def is_transient(error: errors.TltError) -> bool:
    """
    Whether the same call may succeed later or at another server, since the server is unreachable or overloaded, or the
    connection broke.

    A missed deadline is not transient, since it is the caller's. Neither is a rejected certificate, since the CA or the
    name is wrong.
    """
    if any(text in error.message for text in _DISTRUST):
        return False
    if not isinstance(status := error.__cause__, grpc.aio.AioRpcError):
        return isinstance(error, errors.UnavailableError)
    if any(key == REASON_KEY for key, _ in status.trailing_metadata() or ()):
        return isinstance(error, errors.UnavailableError | errors.OverloadedError)
    return status.code() in _CONNECTION_CODES


@contextmanager
def translated() -> Iterator[None]:
    """
    Convert a failed call to the error that the server raised.

    Raises:
        TltError: The call failed.
    """
    try:
        yield
    except grpc.aio.AioRpcError as error:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            # gRPC reports the call's own error if the call fails while it is cancelled (seen with 1.85). A retry loop
            # would then outlive its owner.
            raise asyncio.CancelledError from error
        raise from_status(error) from error
