"""
The error tree, split by what the caller can do about an error.

```
TltError
├── InvalidRequestError      fix the request: `field` names the field, the message what is accepted
│   └── ConfigError          fix the configuration
├── NotFoundError            the named object does not exist
├── StaleEpochError          the lease was superseded: drop the work, request a new lease
├── StaleVersionError        a newer version was published: merge and try again
├── WeightsError             the weights do not fit the model; nothing was changed
│   └── WeightsUnreadableError  a peer could not read or store them; they may be valid
├── UnauthenticatedError     the caller is unknown: present a valid token
├── PermissionDeniedError    the caller may not do this: use another token or certificate
├── OverloadedError          the queue is full: retry after `retry_after_s`
├── AbortedError             the request was aborted
├── UnavailableError         a peer is unreachable: retrying is safe
│   ├── CacheUnavailableError  Redis is unreachable; rollouts continue
│   ├── HungUpError          the peer ended the call cleanly, as on shutdown
│   └── DrainingError          the peer is shutting down and started nothing: use another one
├── RequestFailedError       the engine failed on this request alone; others continue
└── EngineError              the engine failed or was not set up correctly
```
"""

from collections.abc import Iterator, Mapping
from typing import ClassVar

from tlt_common.redaction import redacted


class TltError(Exception):
    """Base class of all errors. `reason` is stable: it appears on the wire, in metrics and in alerts."""

    reason: ClassVar[str] = "INTERNAL"

    def __init__(self, message: str, *, field: str = "") -> None:
        # Messages travel to callers and logs, and quote URLs of stores that may contain a password.
        self.message = redacted(message)
        super().__init__(self.message)
        self.field = field
        """Name of the request field or configuration key at fault; empty if none is."""


class InvalidRequestError(TltError):
    """The request is invalid. Do not repeat it."""

    reason = "INVALID_REQUEST"


class ConfigError(InvalidRequestError):
    """The configuration is invalid. The service does not start."""

    reason = "INVALID_CONFIG"


class NotFoundError(TltError):
    """The named object does not exist."""

    reason = "NOT_FOUND"


class StaleEpochError(TltError):
    """The lease was superseded while the caller worked. Drop the work and request a new lease."""

    reason = "STALE_EPOCH"


class StaleVersionError(TltError):
    """A newer version exists. Merge with it and try again."""

    reason = "STALE_VERSION"


class WeightsError(TltError):
    """Weights are unreadable or have another shape. The previous weights stay in use."""

    reason = "BAD_WEIGHTS"


class WeightsUnreadableError(WeightsError):
    """
    One peer could not read, fetch or store weights for a local reason: a full disk, a missing mount, a lost connection.
    The same weights may be valid on other peers.
    """

    reason = "WEIGHTS_UNREADABLE"


class UnauthenticatedError(TltError):
    """The call had no valid credential."""

    reason = "UNAUTHENTICATED"


class PermissionDeniedError(TltError):
    """The credential is valid but does not permit this call."""

    reason = "PERMISSION_DENIED"


class OverloadedError(TltError):
    """The queue is full."""

    reason = "OVERLOADED"

    def __init__(self, message: str, *, field: str = "", retry_after_s: float = 1.0) -> None:
        super().__init__(message, field=field)
        self.retry_after_s = retry_after_s


class AbortedError(TltError):
    """The request was aborted."""

    reason = "ABORTED"


class UnavailableError(TltError):
    """A peer is unreachable. The call had no effect, or repeating it is harmless."""

    reason = "UNAVAILABLE"


class CacheUnavailableError(UnavailableError):
    """The hidden-state store is unreachable. Rollouts continue without capture."""

    reason = "CACHE_UNAVAILABLE"


class HungUpError(UnavailableError):
    """The peer ended the call cleanly, as on shutdown. Continue on another one."""

    reason = "HUNG_UP"


class DrainingError(UnavailableError):
    """The peer is shutting down and did not start the work; use another one."""

    reason = "DRAINING"


class RequestFailedError(TltError):
    """The engine failed on this request or died of it. Other requests continue; repeating it would fail again."""

    reason = "REQUEST_FAILED"


class EngineError(TltError):
    """The engine failed, or runs without the plug-in's hooks."""

    reason = "ENGINE"


def _kinds(root: type[TltError]) -> Iterator[type[TltError]]:
    yield root
    for kind in root.__subclasses__():
        yield from _kinds(kind)


BY_REASON: Mapping[str, type[TltError]] = {kind.reason: kind for kind in _kinds(TltError)}
"""All errors, by reason."""
