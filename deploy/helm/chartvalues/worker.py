"""Values of workers, and of what they read and write."""

from typing import Literal

from pydantic import Field

from chartvalues.base import Count, Labels, Name, Quantity, Replicas, Seconds, ServiceConfig, Values, settings_of
from chartvalues.kubernetes import Resources, Toleration
from chartvalues.pods import Pods, small

GPU_TAINT = Toleration(key="nvidia.com/gpu", operator="Exists", effect="NoSchedule")


class ModelClaim(Values):
    """A PersistentVolumeClaim that holds the model."""

    claim: Name = ""
    """Its name. Workers mount it read-only."""
    path: str = ""
    """Directory in it; empty: its root."""


class ModelUrl(Values):
    """A model to fetch."""

    url: str = ""
    """Any URL fsspec knows: s3://, gs://, hf://, https://, file://."""
    secret: Name = ""
    """Secret whose keys become the environment of the download, such as AWS_ACCESS_KEY_ID."""
    size: Quantity = "200Gi"
    """Room on the node's disk; each worker pod fetches its own copy."""


class HostPath(Values):
    """A directory of the node."""

    path: str = ""
    """The same on every node. Namespaces that enforce the restricted Pod Security level refuse it."""


class Model(Values):
    """The policy's first checkpoint: a Hugging Face directory."""

    source: Literal["pvc", "hostPath", "url"] = "pvc"
    """Where it comes from."""
    pvc: ModelClaim = ModelClaim()
    """source pvc."""
    host_path: HostPath = HostPath()
    """source hostPath."""
    url: ModelUrl = ModelUrl()
    """source url."""


class DrafterClaim(Values):
    """A PersistentVolumeClaim shared by all workers."""

    existing_claim: Name = ""
    """Use this one; empty: the chart makes one and keeps it on uninstall."""
    storage_class_name: Name = ""
    """Class that can do ReadWriteMany; empty: the cluster's default, if it has one."""
    size: Quantity = "20Gi"
    """Drafters and trainers' checkpoints; a drafter is one layer of the model."""
    access_modes: list[Literal["ReadWriteMany", "ReadWriteOnce"]] = Field(["ReadWriteMany"], min_length=1)
    """ReadWriteOnce does on one node."""


class DrafterUrl(Values):
    """Object storage."""

    url: str = ""
    """Any URL fsspec can write to, such as s3://bucket/tlt."""
    secret: Name = ""
    """Secret whose keys become the environment of workers."""


class Drafters(Values):
    """Where spot trainers publish drafters and keep checkpoints."""

    source: Literal["pvc", "hostPath", "url"] = "pvc"
    """Kind of storage, the same for all workers."""
    pvc: DrafterClaim = DrafterClaim()
    """source pvc."""
    host_path: HostPath = HostPath()
    """source hostPath: a directory that all nodes share."""
    url: DrafterUrl = DrafterUrl()
    """source url."""


class WorkerBudget(Values):
    """How many workers must stay when nodes are drained."""

    enabled: bool = True
    """Whether there is a PodDisruptionBudget (with more than one worker)."""
    min_available: Count | None = None
    """Workers that stay; null: all but one."""


class Kueue(Values):
    """Admission by Kueue: all pods at once or none."""

    queue_name: Name = ""
    """LocalQueue; empty: no Kueue."""


class Head(Pods):
    """Ray's head: places workers, computes nothing."""

    resources: Resources = small("1", "4Gi")
    """What a container asks for and may use."""


class Worker(Pods):
    """Engines, with a spot trainer beside each, placed by KubeRay."""

    replicas: Replicas = 2
    """Pods, each with one engine."""
    gpus: Count = 1
    """GPUs of a pod: the engine's tensor parallelism. 0: on the CPU."""
    gpu_resource: str = "nvidia.com/gpu"
    """Name of the resource."""
    config: ServiceConfig = Field(default={}, json_schema_extra=settings_of("worker"))
    """Keys of `tlt config explain worker`, without those the chart fills in. A change reaches running pods."""
    trainer: ServiceConfig = Field(default={}, json_schema_extra=settings_of("trainer"))
    """Keys of `tlt config explain trainer`, without those workers fill in."""
    drain_seconds: Seconds = 120
    """How long running requests may go on when a pod ends. Gateways resume the rest elsewhere."""
    shared_memory: Quantity = "8Gi"
    """Size of /dev/shm; counts as memory."""
    scratch: Quantity = "100Gi"
    """Size of /tmp on the node's disk: Ray's session and streamed weights, twice."""
    ray_version: str = "2.60.0"
    """Ray in the engine image."""
    runtime_class_name: Name = ""
    """RuntimeClass, such as nvidia where that is not the default."""
    kueue: Kueue = Kueue()
    """Admission by Kueue."""
    labels: Labels = {}
    """More labels of the RayService."""
    disruption_budget: WorkerBudget = WorkerBudget()
    """While nodes are drained."""
    head: Head = Head()
    """Ray's head."""
    tolerations: list[Toleration] = [GPU_TAINT]
    """Taints that do not keep it away; by default that of GPU nodes."""
    resources: Resources = small("8", "64Gi")
    """What a container asks for and may use, without GPUs, which `gpus` says."""
