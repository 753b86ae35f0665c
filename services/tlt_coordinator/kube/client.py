"""Client of the API server over HTTPS. The only module that imports the client library."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import httpx2
import msgspec
from lightkube import ApiError as HttpError
from lightkube import AsyncClient, KubeConfig
from lightkube.core.exceptions import ConfigError as LibraryConfigError
from lightkube.models.core_v1 import EventSource, ObjectReference
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.resources.core_v1 import ConfigMap, Event, Pod
from lightkube.types import PatchType

from tlt_common.errors import ConfigError
from tlt_coordinator.kube.api import (
    ApiError,
    AwayError,
    ConfigMapObject,
    ConflictError,
    EventObject,
    KubeRefusedError,
    MissingError,
    PodObject,
)

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

    async def config_map(self, name: str) -> ConfigMapObject | None:
        try:
            with _translated("get", "configmaps"):
                return _config_map_from(await self._client.get(ConfigMap, name))
        except MissingError:
            return None

    async def create_config_map(self, name: str, data: Mapping[str, str]) -> ConfigMapObject:
        with _translated("create", "configmaps"):
            made = ConfigMap(metadata=ObjectMeta(name=name), data=dict(data))
            return _config_map_from(await self._client.create(made))

    async def replace_config_map(self, name: str, found: ConfigMapObject) -> ConfigMapObject:
        metadata = {**found.metadata, "name": name, "resourceVersion": found.version}
        with _translated("update", "configmaps"):
            made = ConfigMap(metadata=msgspec.convert(metadata, ObjectMeta), data=dict(found.data))
            return _config_map_from(await self._client.replace(made))

    async def pod(self, name: str) -> PodObject:
        with _translated("get", "pods"):
            return _pod_from(await self._client.get(Pod, name))

    async def patch_pod(self, name: str, *, labels: Mapping[str, str], annotations: Mapping[str, str]) -> PodObject:
        body = {"metadata": {"labels": dict(labels), "annotations": dict(annotations)}}
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


def _config_map_from(found: ConfigMap) -> ConfigMapObject:
    metadata = found.metadata or ObjectMeta()
    return ConfigMapObject(data=found.data or {}, version=metadata.resourceVersion or "", metadata=metadata.to_dict())


def _pod_from(pod: Pod) -> PodObject:
    metadata = pod.metadata or ObjectMeta()
    return PodObject(
        name=metadata.name or "",
        uid=metadata.uid or "",
        labels=metadata.labels or {},
        annotations=metadata.annotations or {},
    )
