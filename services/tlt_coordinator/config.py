"""What the coordinator can be told."""

from pathlib import Path
from typing import Self

from pydantic import Field, model_validator

from tlt_common.config.base import Frozen, ServiceConfig


class SpotConfig(Frozen):
    """When idle workers train."""

    settle_s: float = Field(0.3, ge=0)
    """A worker is lent after so many seconds without a request."""
    lease_ttl_s: float = Field(5.0, gt=0)
    """A lease that is not renewed for so long ends by itself. It is renewed every third of that."""
    keep_warm: int = Field(0, ge=0)
    """Idle workers that are not lent, so that a new request finds one at once."""


class KubernetesSettings(Frozen):
    """Replicas in a cluster: one leads by a Lease, which also keeps what must outlive it; the others stand by."""

    namespace: str = Field(min_length=1)
    """Namespace of the replicas and of the workers' pods."""
    pod: str = Field(min_length=1)
    """Name of this replica's own pod."""
    lease: str = Field("tlt-coordinator", min_length=1)
    """Name of the Lease; made when it is not there. The same for all replicas of one fleet."""
    lease_duration_s: int = Field(15, ge=1)
    """Another replica may lead when the leader was not heard of for so long."""
    renew_deadline_s: float = Field(10.0, gt=0)
    """A leader that could not renew for so long stops leading. Below lease_duration_s."""
    retry_period_s: float = Field(2.0, gt=0)
    """The leader renews, and others look, so often. Below renew_deadline_s."""
    kubeconfig: Path | None = None
    """File that says how to reach the API server from outside the cluster; null: the pod's service account."""

    @model_validator(mode="after")
    def _leaves_time_to_stop(self) -> Self:
        if not self.retry_period_s < self.renew_deadline_s < self.lease_duration_s:
            raise ValueError(
                f"retry_period_s {self.retry_period_s:g}, renew_deadline_s {self.renew_deadline_s:g} and "
                f"lease_duration_s {self.lease_duration_s} must be each below the next"
            )
        return self


class CoordinatorConfig(ServiceConfig):
    """Who trains when, and where that is written down."""

    http_listen: str | None = "127.0.0.1:0"
    """host:port of the status page's JSON; port 0 takes any, null turns it off."""
    tokens: Path | None = None
    """YAML file of bearer tokens, as that of the gateway: the status page wants one of scope admin. Null: everybody may
    read it."""
    state_dir: Path | None = None
    """
    Directory for what must outlive a restart: the newest drafter and the last epoch. Null keeps them in memory: after
    a restart workers have no drafter to load until the next one is published.
    """
    kubernetes: KubernetesSettings | None = None
    """
    Choose a leader among replicas, keep the state in its Lease, and label the workers' pods with their roles. Null: one
    coordinator, outside Kubernetes. Excludes `state_dir`.
    """
    lending: bool = True
    """Lend idle workers from the start; `SetLending` changes it."""
    spot: SpotConfig = SpotConfig()
    """When idle workers train."""
    silence_s: float = Field(5.0, gt=0)
    """A worker that sends nothing for so long is down. Workers send at least once a second."""
    queue_stale_s: float = Field(5.0, gt=0)
    """A gateway's queue no longer counts when it was not reported for so long."""

    @model_validator(mode="after")
    def _one_home_of_the_state(self) -> Self:
        if self.kubernetes and self.state_dir:
            raise ValueError(
                "state_dir is for a coordinator outside Kubernetes; with kubernetes the Lease keeps the state"
            )
        return self


CONFIG = CoordinatorConfig
