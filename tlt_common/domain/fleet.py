"""Workers, their states and leases, and the fleet's drafter."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from tlt_common.domain.ids import DrafterVersion, Epoch, PolicyVersion, WorkerId


class WorkerState(StrEnum):
    """What a worker is doing with its device. Every device-second is in exactly one state."""

    ROLLOUT = "rollout"
    """At least one request runs."""
    TRAINING = "training"
    """The drafter trains."""
    SWITCHING = "switching"
    """A grant, revoke or swap is under way."""
    UPDATING = "updating"
    """Policy weights are being loaded."""
    IDLE = "idle"
    """Nothing: a bubble."""
    DOWN = "down"
    """Not there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerHello:
    """Who a worker is."""

    worker_id: WorkerId
    address: str
    """host:port of its gRPC server."""
    model: str
    device: str
    """Kernels it uses, in words."""
    max_running: int
    pod: str = ""
    """Name of the Kubernetes pod it runs in; empty outside Kubernetes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerStatus:
    """How a worker is."""

    state: WorkerState = WorkerState.IDLE
    running: int = 0
    policy_version: PolicyVersion = PolicyVersion(0)
    drafter_version: DrafterVersion = DrafterVersion(0)
    epoch: Epoch = Epoch(0)
    """Of the training lease it holds; 0: none."""
    accept_length: float = 0.0
    """Tokens per verification round lately, bonus included; 0: nothing ran."""
    produced_tokens: int = 0
    arm: str = ""
    training_steps: int = 0
    training_loss: float = 0.0
    trainer_ready: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerInfo:
    """What a worker says of itself to a gateway."""

    worker_id: WorkerId
    model: str
    vocab_size: int
    context_length: int
    max_running: int
    policy_version: PolicyVersion
    drafter_version: DrafterVersion
    running: int
    device: str
    draining: bool = False
    """It is about to end and takes no new requests."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerInfo:
    """What the rollout endpoint serves."""

    model: str
    vocab_size: int
    context_length: int
    policy_version: PolicyVersion
    drafter_version: DrafterVersion
    workers: int
    queued: int
    running: int
    server_version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A worker that is there."""

    hello: WorkerHello
    status: WorkerStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """The right of a worker to train for `ttl_s` from when it was received. A higher epoch replaces it."""

    epoch: Epoch
    ttl_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Revocation:
    """The end of the lease of that epoch."""

    epoch: Epoch


@dataclass(frozen=True, slots=True, kw_only=True)
class DrafterWish:
    """The drafter every worker should have."""

    version: DrafterVersion
    uri: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DrafterRecord:
    """A published drafter."""

    version: DrafterVersion
    worker_id: WorkerId
    at_unix_s: float
    held_out_top1: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StateChange:
    """A worker entered a state."""

    state: WorkerState
    at_unix_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerAccount:
    """A worker and its device-seconds."""

    hello: WorkerHello
    status: WorkerStatus
    seconds: Mapping[WorkerState, float]
    timeline: tuple[StateChange, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """How the fleet is."""

    workers: tuple[WorkerAccount, ...]
    queued: int
    drafter: DrafterWish | None
    drafters: tuple[DrafterRecord, ...]
    lending: bool
    bubble_utilisation: float
    """training / (training + idle + switching) since start; 0 when there was no bubble."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingProgress:
    """How a spot trainer goes."""

    training: bool
    steps: int
    """Optimizer steps since the drafter began, over restarts."""
    tokens: int
    training_s: float
    """Seconds of training since this process began."""
    loss: float
    held_out_top1: float
    drafter_version: DrafterVersion
    """Last published or adopted."""
