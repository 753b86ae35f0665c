"""Configuration of the coordinator."""

from pathlib import Path
from typing import Self

from pydantic import Field, model_validator

from tlt_common.config.base import Frozen, ServiceConfig
from tlt_common.config.entry import ServiceEntry
from tlt_common.journal.files import JOURNAL_MIN_BYTES

LEASE_TTL_S = 5.0
"""
Lifetime of a training lease without renewal, in seconds. A worker that is cut off gives its device back after it.
Leases are renewed every third of it, so that two renewals may be lost. Fleets of more than 1,024 workers get longer
ones: at least three seconds for each 1,024 (`lending/pace.py`).
"""


class SpotConfig(Frozen):
    """When idle workers train."""

    max_trainers: int | None = Field(None, ge=1)
    """Maximum number of workers that train at the same time. Null: as many as pay off, given the gain of trainers per
    second, how often they have seen their data, and how long workers stay idle. Chosen by `tlt simulate sweep`
    (docs/results/sweeps.md)."""


class LendingPolicy(SpotConfig):
    """All that decides about lending: also what no user sets, and only tests, benchmarks and simulations change."""

    settle_s: float | None = Field(None, ge=0)
    """Lend a worker after this many seconds without a request. Null: as soon as it is expected to stay idle for longer
    than a lease takes to start and stop, as measured in this fleet."""
    lease_ttl_s: float = Field(LEASE_TTL_S, gt=0)
    """Lifetime of a lease without renewal, in seconds. Leases are renewed every third of it."""


class KubernetesSettings(Frozen):
    """Where a coordinator in Kubernetes keeps its state and finds the pods of its workers."""

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
    """Host names in URLs with which browsers may call `http_listen` without `tokens`, such as that of a reverse proxy.
    IP addresses, names without a dot and the cluster's own names are always accepted. Any other name may belong to a
    web page that makes it resolve to this address (DNS rebinding)."""
    tokens: Path | None = None
    """YAML file with bearer tokens, in the gateway's format; the API and the status page require the scope observe.
    Null disables authentication."""
    state_dir: Path | None = None
    """Directory for state that must survive a restart: the newest drafter and the last epoch. Only one coordinator may
    use it. Null keeps the state in memory: after a restart, workers have no drafter until the next one is published."""
    kubernetes: KubernetesSettings | None = None
    """Keep the state in a ConfigMap, and label worker pods with their roles. Null: the coordinator runs outside
    Kubernetes. Cannot be combined with `state_dir`."""
    lending: bool = True
    """Lend idle workers from the start; `SetLending` changes it at run time."""
    spot: SpotConfig = SpotConfig()
    """When idle workers train."""
    silence_s: float = Field(5.0, gt=0)
    """Seconds without a message after which a worker counts as down. Workers report at least once per second. Every
    1,024 workers beyond the first 1,024 add a second to the interval of reports and to this limit."""
    journal: Path | None = None
    """Directory for the journal: worker states, leases, training seconds and drafter scores, from which the run can be
    simulated. The gateways and the coordinator of a fleet may share it. Null disables the journal."""
    journal_bytes: int = Field(2**29, ge=JOURNAL_MIN_BYTES)
    """Maximum size in bytes of this coordinator's files in `journal`; the oldest are deleted. A change of a worker's
    state takes about 80 bytes."""

    @property
    def lending_policy(self) -> LendingPolicy:
        """`spot`, with all that users do not set."""
        return self.spot if isinstance(self.spot, LendingPolicy) else LendingPolicy(**self.spot.model_dump())

    @model_validator(mode="after")
    def _one_home_of_the_state(self) -> Self:
        if self.kubernetes and self.state_dir:
            raise ValueError(
                "state_dir is for a coordinator outside Kubernetes; with kubernetes a ConfigMap stores the state"
            )
        return self


SERVICE = ServiceEntry(model=CoordinatorConfig, run="tlt_coordinator.main:run", extra="coordinator")
"""`tlt serve coordinator`."""
