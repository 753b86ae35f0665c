"""
The Kubernetes API as the coordinator uses it: exactly the verbs its role allows.

ApiError                 the call had no effect, or repeating it is harmless
├── AwayError            the API server is unreachable, or failed internally
├── ConflictError        the object was written in between: read it again
├── MissingError         the object does not exist
└── KubeRefusedError     the role lacks the verb, or the object was rejected; retrying does not help

These errors do not leave the package.
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
class ConfigMapObject:
    """A v1 ConfigMap."""

    data: Mapping[str, str]
    version: str
    """Resource version."""
    metadata: Mapping[str, Any] = field(default_factory=dict, compare=False)
    """All metadata that was read; written back unchanged."""


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
    One namespace of an API server. Every method may raise AwayError and KubeRefusedError.

    Calls have a time limit of a few seconds.
    """

    async def config_map(self, name: str) -> ConfigMapObject | None:
        """Read a ConfigMap; None: it does not exist."""

    async def create_config_map(self, name: str, data: Mapping[str, str]) -> ConfigMapObject:
        """
        Create a ConfigMap; return it as stored.

        Raises:
            ConflictError: It already exists.
        """

    async def replace_config_map(self, name: str, found: ConfigMapObject) -> ConfigMapObject:
        """
        Replace the ConfigMap of the same resource version; return it as stored.

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

    async def patch_pod(self, name: str, *, labels: Mapping[str, str], annotations: Mapping[str, str]) -> PodObject:
        """
        Set labels and annotations of a pod; return the patched pod.

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
