"""Values of workers, the model they serve and the drafters they share."""

from typing import Literal

from pydantic import Field

from chartvalues.base import Count, Labels, Name, Quantity, Replicas, Seconds, ServiceConfig, Values, settings_of
from chartvalues.kubernetes import Resources, Toleration
from chartvalues.pods import Container, Pods, small

GPU_TAINT = Toleration(key="nvidia.com/gpu", operator="Exists", effect="NoSchedule")


class ModelClaim(Values):
    """A PersistentVolumeClaim that holds the model."""

    claim: Name = ""
    """Name of the claim; mounted read-only into workers."""
    path: str = ""
    """Directory within the volume; empty means its root."""


class ModelUrl(Values):
    """A model to download."""

    url: str = ""
    """Any URL that fsspec supports: s3://, gs://, hf://, https://, file://."""
    secret: Name = ""
    """Secret whose keys become environment variables of the download, such as AWS_ACCESS_KEY_ID."""
    size: Quantity = "200Gi"
    """Size limit of the download on the node's disk; each worker pod downloads its own copy."""


class HostPath(Values):
    """A directory on the node."""

    path: str = ""
    """Path, the same on every node. Namespaces that enforce the restricted Pod Security level reject it."""


class Model(Values):
    """The initial policy checkpoint: a Hugging Face model directory."""

    source: Literal["pvc", "hostPath", "url"] = "pvc"
    """Source of the model."""
    pvc: ModelClaim = ModelClaim()
    """For source pvc."""
    host_path: HostPath = HostPath()
    """For source hostPath."""
    url: ModelUrl = ModelUrl()
    """For source url."""


class DrafterClaim(Values):
    """A PersistentVolumeClaim shared by all workers."""

    existing_claim: Name = ""
    """Existing claim to use; empty means the chart creates one and keeps it on uninstall."""
    storage_class_name: Name = ""
    """StorageClass that supports ReadWriteMany; empty means the cluster's default, if it has one."""
    size: Quantity = "20Gi"
    """Storage request for drafters and trainer checkpoints; a drafter is as large as one layer of the model."""
    access_modes: list[Literal["ReadWriteMany", "ReadWriteOnce"]] = Field(["ReadWriteMany"], min_length=1)
    """Access modes; ReadWriteOnce suffices on a single node."""


class DrafterUrl(Values):
    """Object storage."""

    url: str = ""
    """Any URL that fsspec can write to, such as s3://bucket/tlt."""
    secret: Name = ""
    """Secret whose keys become environment variables of the workers."""


class Drafters(Values):
    """Storage to which spot trainers publish drafters and write checkpoints."""

    source: Literal["pvc", "hostPath", "url"] = "pvc"
    """Kind of storage, the same for all workers."""
    pvc: DrafterClaim = DrafterClaim()
    """For source pvc."""
    host_path: HostPath = HostPath()
    """For source hostPath: a directory shared by all nodes."""
    url: DrafterUrl = DrafterUrl()
    """For source url."""


class WorkerBudget(Values):
    """PodDisruptionBudget of the workers."""

    enabled: bool = True
    """Create a PodDisruptionBudget if there is more than one worker."""
    min_available: Count | None = None
    """Minimum number of available workers; null means all but one."""


class Kueue(Values):
    """Admission by Kueue: all pods at once, or none."""

    queue_name: Name = ""
    """LocalQueue; empty disables Kueue."""


class Head(Pods):
    """Ray's head node: schedules workers and runs no computation."""

    dashboard_host: str = "0.0.0.0"
    """Listen address of Ray's dashboard, through which KubeRay deploys workers; `::` in an IPv6-only cluster."""

    resources: Resources = small("1", "4Gi")
    """Resource requests and limits."""


class Worker(Pods):
    """Workers placed by KubeRay: one engine and one spot trainer per pod."""

    replicas: Replicas = 2
    """Number of worker pods, each with one engine."""
    gpus: Count = 1
    """GPUs per pod, which is the engine's tensor-parallel size; 0 runs the engine on the CPU."""
    gpu_resource: str = "nvidia.com/gpu"
    """Name of the extended resource for GPUs."""
    config: ServiceConfig = Field(default={}, json_schema_extra=settings_of("worker"))
    """Keys of `tlt config explain worker`, except those the chart sets. Changes are applied to running pods."""
    trainer: ServiceConfig = Field(default={}, json_schema_extra=settings_of("trainer"))
    """Keys of `tlt config explain trainer`, except those workers set."""
    drain_seconds: Seconds = 120
    """Grace period for running requests when a pod terminates. Gateways resume the remaining ones on other workers."""
    shared_memory: Quantity = "8Gi"
    """Size limit of /dev/shm; counts toward the pod's memory."""
    scratch: Quantity = "100Gi"
    """Size limit of /tmp on the node's disk, for Ray's session files and two copies of streamed weights."""
    ray_version: str = "2.60.0"
    """Ray version of the engine image."""
    ray_auth: Literal["token", "disabled"] = "token"
    """Authentication of calls to Ray's dashboard, job API and cluster. token: a token that KubeRay creates for each
    Ray cluster and keeps in a Secret. disabled: none, so that only network policies protect them."""
    runtime_class_name: Name = ""
    """RuntimeClass, such as nvidia where it is not the default."""
    kueue: Kueue = Kueue()
    """Admission by Kueue."""
    labels: Labels = {}
    """Additional labels of the RayService."""
    disruption_budget: WorkerBudget = WorkerBudget()
    """PodDisruptionBudget."""
    head: Head = Head()
    """Ray's head node."""
    fetch: Container = Container(resources=Resources(requests={"cpu": "1", "memory": "1Gi"}, limits={"memory": "4Gi"}))
    """Init container that downloads the model (model.source `url`)."""
    check: Container = Container(
        resources=Resources(requests={"cpu": "100m", "memory": "256Mi"}, limits={"memory": "1Gi"})
    )
    """Init container that refuses a model that no engine runs."""
    tolerations: list[Toleration] = [GPU_TAINT]
    """Tolerations for node taints; by default the taint of GPU nodes."""
    resources: Resources = small("8", "64Gi")
    """Resource requests and limits, except GPUs (see `gpus`)."""
