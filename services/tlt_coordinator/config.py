"""Configuration of the coordinator."""

from pathlib import Path
from typing import Self

from pydantic import Field, model_validator

from tlt_common.config.base import Frozen, ServiceConfig
from tlt_common.config.entry import ServiceEntry
from tlt_common.journal.files import JOURNAL_MIN_BYTES


class SpotConfig(Frozen):
    """When idle workers train."""

    settle_s: float | None = Field(None, ge=0)
    """Lend a worker after this many seconds without a request. Null: as soon as it is expected to stay free for longer
    than a lease takes to start and to stop, as measured in this fleet; 0.3 until enough is known. Chosen by
    `tlt simulate sweep` (docs/results/sweeps.md)."""
    max_trainers: int | None = Field(None, ge=1)
    """Maximum number of workers that train at the same time. Null: as many as pay, by what trainers gain per second,
    how often they have seen their data, and for how long workers stay free. Chosen by `tlt simulate sweep`
    (docs/results/sweeps.md)."""
    lease_ttl_s: float = Field(5.0, gt=0)
    """Lifetime of a training lease without renewal, in seconds. Leases are renewed every third of it. Fleets of more
    than 1,024 workers get longer ones: at least three seconds for each 1,024."""
    keep_warm: int = Field(0, ge=0)
    """Number of idle workers to hold in reserve for new requests; they are not lent."""


class KubernetesSettings(Frozen):
    """Where a coordinator in Kubernetes keeps its state, and where the pods of its workers are."""

    namespace: str = Field(min_length=1)
    """Namespace of the coordinator and of the worker pods."""
    pod: str = Field(min_length=1)
    """Name of the coordinator's pod."""
    config_map: str = Field("tlt-coordinator-state", min_length=1)
    """Name of the ConfigMap that stores the state, created if missing."""
    kubeconfig: Path | None = None
    """Kubeconfig for access from outside the cluster; null uses the pod's service account."""


class CoordinatorConfig(ServiceConfig):
    """The coordinator lends idle workers to drafter training and keeps the ledger of device-seconds."""

    component = "coordinator"

    http_listen: str | None = "127.0.0.1:0"
    """host:port of the page, its API and the status page (JSON); port 0 picks a free port, null disables them."""
    http_hosts: tuple[str, ...] = ()
    """Names in URLs by which browsers may call `http_listen` without `tokens`, such as that of a reverse proxy.
    Addresses, names without a dot and names of the cluster are always accepted; others may be a web page's, which lets
    its own name resolve to this address."""
    tokens: Path | None = None
    """YAML file with bearer tokens, in the gateway's format; the API and the status page require the scope observe.
    Null disables authentication."""
    state_dir: Path | None = None
    """Directory for state that must survive a restart: the newest drafter and the last epoch; of one coordinator. Null
    keeps it in memory; after a restart, workers then have no drafter until the next one is published."""
    kubernetes: KubernetesSettings | None = None
    """Keep the state in a ConfigMap, and label worker pods with their roles. Null: outside Kubernetes. Cannot be
    combined with `state_dir`."""
    lending: bool = True
    """Lend idle workers from the start; `SetLending` changes it at run time."""
    spot: SpotConfig = SpotConfig()
    """When idle workers train."""
    silence_s: float = Field(5.0, gt=0)
    """Seconds without a message after which a worker counts as down. Workers report at least once per second. Every
    1,024 workers beyond the first 1,024 add a second to the interval of reports and to this limit."""
    journal: Path | None = None
    """Directory in which states of workers, leases, trained seconds and scores of drafters are written down for a
    simulation of the run. It may be shared by the gateways and the coordinator of a fleet. Null: none."""
    journal_bytes: int = Field(2**29, ge=JOURNAL_MIN_BYTES)
    """Maximum size in bytes of this coordinator's files in `journal`; the oldest are deleted. A change of a worker's
    state takes about 80 bytes."""

    @model_validator(mode="after")
    def _one_home_of_the_state(self) -> Self:
        if self.kubernetes and self.state_dir:
            raise ValueError(
                "state_dir is for a coordinator outside Kubernetes; with kubernetes a ConfigMap stores the state"
            )
        return self


SERVICE = ServiceEntry(model=CoordinatorConfig, run="tlt_coordinator.main:run", extra="coordinator")
"""`tlt serve coordinator`."""
