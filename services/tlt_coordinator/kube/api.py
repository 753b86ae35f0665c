"""
What the coordinator asks of Kubernetes: exactly the verbs its role may use.

ApiError                 the call had no effect, or repeating it is harmless
├── AwayError            the API server does not answer, or has trouble of its own
├── ConflictError        somebody wrote in between: read again
├── MissingError         the object is not there
└── RefusedError         the role lacks the verb, or the object is not accepted; trying again does not help

These errors stay within the package.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol


class ApiError(Exception):
    """A call of the API server that failed."""

    def __init__(self, verb: str, resource: str, message: str) -> None:
        super().__init__(f"{verb} {resource}: {message}")
        self.verb = verb
        self.resource = resource


class AwayError(ApiError):
    """It may have had an effect."""


class ConflictError(ApiError):
    """Written since it was read, or there already."""


class MissingError(ApiError):
    """Not there, or not any more."""


class RefusedError(ApiError):
    """Not allowed, or not accepted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseObject:
    """A coordination.k8s.io/v1 Lease, and the state in its annotation."""

    holder: str
    """Empty: released."""
    duration_s: int
    """Promise of the holder: it stops before it has not renewed for so long."""
    acquired_at: datetime | None = None
    renewed_at: datetime | None = None
    """By the holder's clock. For people: nobody decides by it."""
    transitions: int = 0
    """How often the holder changed."""
    state: str = ""
    """Annotation tlt.dev/state; empty: none."""
    version: str = ""
    """Resource version; empty: not there yet."""
    metadata: Mapping[str, Any] = field(default_factory=dict, compare=False)
    """All else that was read with it; written back as it was."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodObject:
    """A pod, as far as it matters here."""

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
    """How often the same happened since `first_at`."""


class Kube(Protocol):
    """
    One namespace of an API server. Every method may raise AwayError and RefusedError.

    Calls end by themselves after some seconds.
    """

    async def lease(self, name: str) -> LeaseObject | None:
        """Read a Lease; None: it is not there."""

    async def create_lease(self, name: str, lease: LeaseObject) -> LeaseObject:
        """
        Make a Lease; returns it as it is kept.

        Raises:
            ConflictError: It is there.
        """

    async def replace_lease(self, name: str, lease: LeaseObject) -> LeaseObject:
        """
        Write a Lease over the one of its version; returns it as it is kept.

        Raises:
            ConflictError: It was written since.
            MissingError: It is gone.
        """

    async def pod(self, name: str) -> PodObject:
        """
        Read a pod.

        Raises:
            MissingError: It is not there.
        """

    async def pods(self, labels: Mapping[str, str]) -> tuple[PodObject, ...]:
        """All pods that have these labels."""

    async def patch_pod(
        self, name: str, *, labels: Mapping[str, str | None], annotations: Mapping[str, str] | None = None
    ) -> PodObject:
        """
        Set labels and annotations of a pod; None takes a label away. Returns it as it is then.

        Raises:
            MissingError: It is not there.
        """

    async def create_event(self, event: EventObject) -> None:
        """Make an Event."""

    async def repeat_event(self, event: EventObject) -> None:
        """
        Set count, time and message of an Event that was made before.

        Raises:
            MissingError: It expired.
        """
