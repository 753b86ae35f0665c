"""One table between our errors and gRPC status, for both directions."""

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
    errors.UnauthenticatedError: grpc.StatusCode.UNAUTHENTICATED,
    errors.PermissionDeniedError: grpc.StatusCode.PERMISSION_DENIED,
    errors.OverloadedError: grpc.StatusCode.RESOURCE_EXHAUSTED,
    errors.AbortedError: grpc.StatusCode.ABORTED,
    errors.UnavailableError: grpc.StatusCode.UNAVAILABLE,
    errors.CacheUnavailableError: grpc.StatusCode.UNAVAILABLE,
    errors.DrainingError: grpc.StatusCode.UNAVAILABLE,
    errors.EngineError: grpc.StatusCode.INTERNAL,
    errors.TltError: grpc.StatusCode.INTERNAL,
}
_BY_REASON = {kind.reason: kind for kind in CODES}
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
    """Trailing metadata of the status an error becomes."""
    pairs = ((REASON_KEY, error.reason), (FIELD_KEY, error.field))
    if isinstance(error, errors.OverloadedError):
        return (*pairs, (RETRY_KEY, str(round(error.retry_after_s * 1000))))
    return pairs


def from_status(error: grpc.aio.AioRpcError) -> errors.TltError:
    """Return the error a status was made of; one that is not ours is judged by its code."""
    trailing = {key: value for key, value in error.trailing_metadata() or () if isinstance(value, str)}
    kind = _BY_REASON.get(trailing.get(REASON_KEY, "")) or _BY_CODE.get(error.code(), errors.TltError)
    message = error.details() or error.code().name
    field = trailing.get(FIELD_KEY, "")
    if kind is errors.OverloadedError:
        retry_after_s = int(trailing.get(RETRY_KEY, "1000")) / 1000
        return errors.OverloadedError(message, field=field, retry_after_s=retry_after_s)
    return kind(message, field=field)


@contextmanager
def translated() -> Iterator[None]:
    """
    Turn a failed call into the error it was at the server.

    Raises:
        TltError: The call failed.
    """
    try:
        yield
    except grpc.aio.AioRpcError as error:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            # gRPC answers a cancellation with the call's own error when both come at once (seen with 1.85): a loop that
            # tries again would outlive its owner.
            raise asyncio.CancelledError from error
        raise from_status(error) from error
