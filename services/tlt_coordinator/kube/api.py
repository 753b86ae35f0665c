"""
The Kubernetes API as the coordinator uses it: exactly the verbs its role allows.

ApiError                 the call had no effect, or repeating it is harmless
├── AwayError            the API server is unreachable, or failed internally
├── ConflictError        the object was written in between: read it again
├── MissingError         the object does not exist
└── RefusedError         the role lacks the verb, or the object was rejected; retrying does not help

These errors stay within the package.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol


class ApiError(Exception):
    """A call to the API server failed."""

    def __init__(self, verb: str, resource: str, message: str) -> None:
        super().__init__(f"{verb} {resource}: {message}")
        self.verb = verb
        self.resource = resource


class AwayError(ApiError):
    """The API server is unreachable, or failed internally. The call may have had an effect."""


class ConflictError(ApiError):
    """The object was written since it was read, or already exists."""


class MissingError(ApiError):
    """The object does not exist, or no longer does."""


class KubeRefusedError(ApiError):
    """The call is not allowed, or the object was rejected."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseObject:
    """A coordination.k8s.io/v1 Lease, and the state in its annotation."""

    holder: str
    """Empty: released."""
    duration_s: int
    """The holder stops leading before it has gone this many seconds without a renewal."""
    acquired_at: datetime | None = None
    renewed_at: datetime | None = None
    """By the holder's clock. Informational: no decision depends on it."""
    transitions: int = 0
    """Number of changes of the holder."""
    state: str = ""
    """Annotation tlt.dev/state; empty: none."""
    version: str = ""
    """Resource version; empty: the Lease does not exist yet."""
    metadata: Mapping[str, Any] = field(default_factory=dict, compare=False)
    """All other metadata that was read; written back unchanged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodObject:
    """The fields of a pod that the coordinator uses."""

    name: str
    uid: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class EventObject:
    """A v1 Event about a pod."""

    name: str
    pod: PodObject
    reason: str
    message: str
    first_at: datetime
    last_at: datetime
    count: int = 1
    """Occurrences since `first_at`."""


class Kube(Protocol):
    """
    One namespace of an API server. Every method may raise AwayError and RefusedError.

    Calls have a time limit of a few seconds.
    """

    async def lease(self, name: str) -> LeaseObject | None:
        """Read a Lease; None: it does not exist."""

    async def create_lease(self, name: str, lease: LeaseObject) -> LeaseObject:
        """
        Create a Lease; return it as stored.

        Raises:
            ConflictError: It already exists.
        """

    async def replace_lease(self, name: str, lease: LeaseObject) -> LeaseObject:
        """
        Replace the Lease of the same resource version; return it as stored.

        Raises:
            ConflictError: It was written since.
            MissingError: It no longer exists.
        """

    async def pod(self, name: str) -> PodObject:
        """
        Read a pod.

        Raises:
            MissingError: It does not exist.
        """

    async def pods(self, labels: Mapping[str, str]) -> tuple[PodObject, ...]:
        """Return all pods that have these labels."""

    async def patch_pod(
        self, name: str, *, labels: Mapping[str, str | None], annotations: Mapping[str, str] | None = None
    ) -> PodObject:
        """
        Set labels and annotations of a pod; None removes a label. Return the patched pod.

        Raises:
            MissingError: It does not exist.
        """

    async def create_event(self, event: EventObject) -> None:
        """Create an Event."""

    async def repeat_event(self, event: EventObject) -> None:
        """
        Update count, time and message of an existing Event.

        Raises:
            MissingError: It expired.
        """
