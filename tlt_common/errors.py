"""The error tree. Split by what the caller can do about it.

TltError
├── InvalidRequestError      fix the request: `field` says what, the message says what is accepted
│   └── ConfigError          fix the configuration
├── NotFoundError            the thing asked for is not there
├── StaleEpochError          the lease moved on: drop the work, ask for a new lease
├── StaleVersionError        somebody published in between: merge and try again
├── WeightsError             the weights do not fit the model; nothing was changed
├── UnauthenticatedError     who asks is not known: present a valid token
├── PermissionDeniedError    who asks is known, and may not: use another token or certificate
├── OverloadedError          too much waits: come back after `retry_after_s`
├── AbortedError             somebody ended the request
├── UnavailableError         a peer is not there: trying again is safe
│   ├── CacheUnavailableError  Redis is not there; rollouts go on
│   └── DrainingError          the peer is about to end and began nothing: ask another one
└── EngineError              the engine failed or was not installed as it must be
"""

from typing import ClassVar


class TltError(Exception):
    """Base of all errors of the suite. `reason` is stable: on the wire, in metrics, in alerts."""

    reason: ClassVar[str] = "INTERNAL"

    def __init__(self, message: str, *, field: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.field = field
        """Name of the request field or configuration key at fault; empty if none is."""


class InvalidRequestError(TltError):
    """The request cannot be answered as it is. Do not repeat it."""

    reason = "INVALID_REQUEST"


class ConfigError(InvalidRequestError):
    """The configuration is wrong. The service does not start."""

    reason = "INVALID_CONFIG"


class NotFoundError(TltError):
    """What was named is not there."""

    reason = "NOT_FOUND"


class StaleEpochError(TltError):
    """The lease moved on while the caller worked. Drop the work and ask for a new lease."""

    reason = "STALE_EPOCH"


class StaleVersionError(TltError):
    """A newer version exists. Merge with it and try again."""

    reason = "STALE_VERSION"


class WeightsError(TltError):
    """Weights are unreadable or of another shape. What was served before is still served."""

    reason = "BAD_WEIGHTS"


class UnauthenticatedError(TltError):
    """No credential came, or none that is known and valid. Ask for one."""

    reason = "UNAUTHENTICATED"


class PermissionDeniedError(TltError):
    """The credential is valid and does not allow this. Use one that does."""

    reason = "PERMISSION_DENIED"


class OverloadedError(TltError):
    """Too much waits already."""

    reason = "OVERLOADED"

    def __init__(self, message: str, *, field: str = "", retry_after_s: float = 1.0) -> None:
        super().__init__(message, field=field)
        self.retry_after_s = retry_after_s


class AbortedError(TltError):
    """Somebody ended the request."""

    reason = "ABORTED"


class UnavailableError(TltError):
    """A peer is not there. The call had no effect, or repeating it is harmless."""

    reason = "UNAVAILABLE"


class CacheUnavailableError(UnavailableError):
    """The hidden-state store is not reachable. Rollouts go on without capture."""

    reason = "CACHE_UNAVAILABLE"


class DrainingError(UnavailableError):
    """The peer is about to end and takes nothing new. Nothing was begun; ask another one."""

    reason = "DRAINING"


class EngineError(TltError):
    """The engine failed, or runs without our hooks."""

    reason = "ENGINE"
