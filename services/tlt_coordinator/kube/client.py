"""Client of the API server over HTTPS. The only module that imports the client library."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx2
import msgspec
from lightkube import ApiError as HttpError
from lightkube import AsyncClient, KubeConfig
from lightkube.core.exceptions import ConfigError as LibraryConfigError
from lightkube.models.coordination_v1 import LeaseSpec
from lightkube.models.core_v1 import EventSource, ObjectReference
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.resources.coordination_v1 import Lease
from lightkube.resources.core_v1 import Event, Pod
from lightkube.types import PatchType

from tlt_common.errors import ConfigError
from tlt_coordinator.kube.api import (
    ApiError,
    AwayError,
    ConflictError,
    EventObject,
    KubeRefusedError,
    LeaseObject,
    MissingError,
    PodObject,
)

STATE_ANNOTATION = "tlt.dev/state"
COMPONENT = "tlt-coordinator"
"""Source component of Events."""

CALL_S = 5.0
"""Time limit, in seconds, for connecting and for each read of a response."""

_ERRORS: dict[int, type[ApiError]] = {
    400: KubeRefusedError,
    401: KubeRefusedError,
    403: KubeRefusedError,
    404: MissingError,
    409: ConflictError,
    413: KubeRefusedError,
    422: KubeRefusedError,
}


class KubeClient:
    """
    Implements `Kube` for one namespace.

    Args:
        kubeconfig: Kubeconfig file; None: the pod's service account, whose token is read again when it expires.

    Raises:
        ConfigError: The file does not exist, or there is no service account.
    """

    def __init__(self, namespace: str, *, pod: str, kubeconfig: Path | None = None) -> None:
        self._namespace = namespace
        self._pod = pod
        self._client = AsyncClient(_config(kubeconfig), namespace=namespace, timeout=httpx2.Timeout(CALL_S))

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.close()

    async def lease(self, name: str) -> LeaseObject | None:
        try:
            with _translated("get", "leases"):
                return _lease_from(await self._client.get(Lease, name))
        except MissingError:
            return None

    async def create_lease(self, name: str, lease: LeaseObject) -> LeaseObject:
        with _translated("create", "leases"):
            return _lease_from(await self._client.create(_lease_to(replace(lease, metadata={}, version=""), name)))

    async def replace_lease(self, name: str, lease: LeaseObject) -> LeaseObject:
        with _translated("update", "leases"):
            return _lease_from(await self._client.replace(_lease_to(lease, name)))

    async def pod(self, name: str) -> PodObject:
        with _translated("get", "pods"):
            return _pod_from(await self._client.get(Pod, name))

    async def pods(self, labels: Mapping[str, str]) -> tuple[PodObject, ...]:
        with _translated("list", "pods"):
            return tuple([_pod_from(pod) async for pod in self._client.list(Pod, labels=dict(labels))])

    async def patch_pod(
        self, name: str, *, labels: Mapping[str, str | None], annotations: Mapping[str, str] | None = None
    ) -> PodObject:
        body = {"metadata": {"labels": dict(labels), "annotations": dict(annotations or {})}}
        with _translated("patch", "pods"):
            return _pod_from(await self._client.patch(Pod, name, body, patch_type=PatchType.MERGE))

    async def create_event(self, event: EventObject) -> None:
        made = Event(
            metadata=ObjectMeta(name=event.name, namespace=self._namespace),
            involvedObject=ObjectReference(
                apiVersion="v1", kind="Pod", name=event.pod.name, namespace=self._namespace, uid=event.pod.uid
            ),
            type="Normal",
            reason=event.reason,
            message=event.message,
            source=EventSource(component=COMPONENT),
            reportingComponent=COMPONENT,
            reportingInstance=self._pod,
            firstTimestamp=event.first_at,
            lastTimestamp=event.last_at,
            count=event.count,
        )
        with _translated("create", "events"):
            await self._client.create(made)

    async def repeat_event(self, event: EventObject) -> None:
        body = {"count": event.count, "lastTimestamp": event.last_at.isoformat(), "message": event.message}
        with _translated("patch", "events"):
            await self._client.patch(Event, event.name, body, patch_type=PatchType.MERGE)


def _config(kubeconfig: Path | None) -> KubeConfig:
    try:
        if kubeconfig is not None:
            return KubeConfig.from_file(kubeconfig)
        return KubeConfig.from_service_account()
    except (LibraryConfigError, OSError, KeyError) as error:
        if kubeconfig is not None:
            raise ConfigError(
                f"kubernetes.kubeconfig {kubeconfig} cannot be used: {error}", field="kubernetes.kubeconfig"
            ) from error
        raise ConfigError(
            "kubernetes is set, but this process has no service account; mount one (automountServiceAccountToken), "
            "or set kubernetes.kubeconfig to a file",
            field="kubernetes",
        ) from error


@contextmanager
def _translated(verb: str, resource: str) -> Iterator[None]:
    try:
        yield
    except HttpError as error:
        kind = _ERRORS.get(error.response.status_code, AwayError)
        raise kind(verb, resource, error.status.message or str(error)) from error
    # A response that does not come from an API server, such as a proxy's error page, fails to decode.
    except (httpx2.HTTPError, LibraryConfigError, OSError, msgspec.MsgspecError, KeyError, ValueError) as error:
        raise AwayError(verb, resource, str(error) or type(error).__name__) from error


def _lease_from(lease: Lease) -> LeaseObject:
    metadata, spec = lease.metadata or ObjectMeta(), lease.spec or LeaseSpec()
    return LeaseObject(
        holder=spec.holderIdentity or "",
        duration_s=spec.leaseDurationSeconds or 0,
        acquired_at=spec.acquireTime,
        renewed_at=spec.renewTime,
        transitions=spec.leaseTransitions or 0,
        state=(metadata.annotations or {}).get(STATE_ANNOTATION, ""),
        version=metadata.resourceVersion or "",
        metadata=metadata.to_dict(),
    )


def _lease_to(lease: LeaseObject, name: str) -> Lease:
    kept: dict[str, Any] = dict(lease.metadata)
    annotations = {**kept.pop("annotations", {}), STATE_ANNOTATION: lease.state}
    metadata = msgspec.convert(kept | {"name": name, "annotations": annotations}, ObjectMeta)
    metadata.resourceVersion = lease.version or None
    return Lease(
        metadata=metadata,
        spec=LeaseSpec(
            holderIdentity=lease.holder,
            leaseDurationSeconds=lease.duration_s,
            acquireTime=_micro(lease.acquired_at),
            renewTime=_micro(lease.renewed_at),
            leaseTransitions=lease.transitions,
        ),
    )


def _micro(at: datetime | None) -> datetime | None:
    # The server requires six fractional digits, and the encoder omits a fraction of zero.
    return at and at.replace(microsecond=at.microsecond or 1)


def _pod_from(pod: Pod) -> PodObject:
    metadata = pod.metadata or ObjectMeta()
    return PodObject(
        name=metadata.name or "",
        uid=metadata.uid or "",
        labels=metadata.labels or {},
        annotations=metadata.annotations or {},
    )
