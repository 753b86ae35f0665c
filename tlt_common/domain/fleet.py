"""Workers, their states and leases, and the fleet's drafter."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from tlt_common.domain.arm.rounds import NO_ROUNDS, WorkedRounds
from tlt_common.domain.bounds import MAX_RELEASE_S, require_range
from tlt_common.domain.ids import DrafterVersion, Epoch, PolicyVersion, WorkerId
from tlt_common.domain.pause import NO_PAUSE, Pause
from tlt_common.domain.weights import ReleaseId, ServedRelease
from tlt_common.errors import InvalidRequestError

MEMORY_TAGS = ("weights", "kv_cache", "cuda_graph")
"""Memory that engines can release, by SGLang's names."""

MAX_PROBLEM = 500
"""Characters of a worker's problem."""

PAY_GAIN = 0.01
"""
Gain worth training for, in held-out tokens per round with a chain of three drafts. Trainers rest when the second half
of the evaluations of a plateau does not exceed the first by more, and no further device is lent for less. Runs are as
fast with 0.001 (docs/results/sweeps.md).
"""

HISTORY_CHANGES = 256
"""Changes of state that a worker reports to a coordinator that does not know them: 2.3 kB."""


def memory_tags(tags: Iterable[str]) -> frozenset[str]:
    """
    Return the memory to release or to resume: all of it without tags.

    Raises:
        InvalidRequestError: A tag is unknown.
    """
    wanted = frozenset(tags) or frozenset(MEMORY_TAGS)
    if unknown := sorted(wanted.difference(MEMORY_TAGS)):
        raise InvalidRequestError(f"tags has {unknown[0]!r:.40}; accepted: {', '.join(MEMORY_TAGS)}", field="tags")
    return wanted


def require_release_limit(limit_s: float | None) -> None:
    """
    Check the seconds after which released memory is resumed; None is no limit.

    Raises:
        InvalidRequestError: The limit is out of range.
    """
    if limit_s is not None:
        require_range("limit_s", limit_s, low=0, high=MAX_RELEASE_S, open_low=True)


class WorkerState(StrEnum):
    """State of a worker. Every device-second belongs to exactly one state."""

    ROLLOUT = "rollout"
    """At least one request is running."""
    TRAINING = "training"
    """The device computes for drafter training, as measured by the trainer."""
    SWITCHING = "switching"
    """A lease is being granted or revoked, a drafter swapped, or the trainer holds the device without computing."""
    UPDATING = "updating"
    """Policy weights are being loaded."""
    IDLE = "idle"
    """The device is idle: a bubble."""
    STARTING = "starting"
    """The device is idle, and the spot trainer does not respond yet: a bubble."""
    RESTING = "resting"
    """The device is idle, and the spot trainer has no data to learn from: a bubble."""
    TRAINER = "trainer"
    """An RL trainer has the devices: the engine released their memory."""
    DOWN = "down"
    """The worker is unreachable."""


FREE = frozenset({WorkerState.IDLE, WorkerState.STARTING, WorkerState.RESTING})
"""States in which devices are unused."""

LENDABLE = FREE | {WorkerState.TRAINING, WorkerState.SWITCHING}
"""States in which the devices are not needed otherwise."""

BUBBLES = LENDABLE | {WorkerState.UPDATING}
"""States in which devices of the fleet generate nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StateChange:
    """Transition of a worker to a state."""

    state: WorkerState
    at_unix_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PastChange:
    """Transition of a worker to a state some seconds ago. Relative, since the clocks of machines differ."""

    state: WorkerState
    age_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerHello:
    """Identity of a worker."""

    worker_id: WorkerId
    address: str
    """host:port of its gRPC server."""
    model: str
    device: str
    """Human-readable description of the device and its kernels."""
    max_running: int
    pod: str = ""
    """Name of its Kubernetes pod; empty outside Kubernetes."""
    accepts_report_interval: bool = False
    """Whether it understands ReportInterval."""
    devices: int = 1
    """Number of devices of its engine: tensor-parallel ranks."""
    training_devices: int = 1
    """Number of those devices that its trainer uses."""
    history: tuple[PastChange, ...] = ()
    """Its latest changes of state, oldest first; empty in displayed workers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerStatus:
    """Current status of a worker."""

    state: WorkerState = WorkerState.IDLE
    running: int = 0
    policy_version: PolicyVersion = PolicyVersion(0)
    drafter_version: DrafterVersion = DrafterVersion(0)
    epoch: Epoch = Epoch(0)
    """Epoch of its training lease; 0 means none."""
    accept_length: float = 0.0
    """Recent tokens per verification round, including the bonus token; 0 if nothing ran."""
    produced_tokens: int = 0
    arm: str = ""
    training_steps: int = 0
    training_tokens: int = 0
    """States that its trainer's drafter has learned from, across restarts and all contributing trainers."""
    training_loss: float = 0.0
    trainer_ready: bool = False
    lent: bool = False
    """Whether the trainer may be computing on the device."""
    training_s: float = 0.0
    """Device-seconds of training since the worker started, over all its devices; never decreases."""
    training_age_s: float = 0.0
    """Seconds since the trainer reported `training_s`; 0 unless lent."""
    trainer_resting: bool = False
    """Whether its trainer has nothing left to learn and wants no lease."""
    training_gain: float | None = None
    """Recent gain in held-out tokens per round, per second of training; None if unknown."""
    training_passes: float = 0.0
    """Average number of passes of its trainer over its data."""
    drafter_pause_s: float = 0.0
    """Duration of the engine's pause for the last loaded drafter, in seconds."""
    problem: str = ""
    """Why it does not train or load the newest drafter, in one sentence; empty if it does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerInfo:
    """Description of a worker for gateways."""

    worker_id: WorkerId
    model: str
    vocab_size: int
    context_length: int
    finds_stop_strings: bool = False
    """Whether it supports stop strings, for which it needs the model's tokenizer."""
    returns_routed_experts: bool = False
    """Whether its engine returns routed experts."""
    max_running: int
    policy_version: PolicyVersion
    drafter_version: DrafterVersion
    running: int
    device: str
    draining: bool = False
    """Whether it is shutting down and refuses new requests."""
    training: bool = False
    """Whether its device trains the drafter."""
    release: ServedRelease | None = None
    """The release it serves; None if it does not say more than the version."""
    receiving: bool = False
    """Whether it has joined a trainer's process group or has collected tensors of an update."""
    kv_tokens: int = 0
    """KV cache size in tokens; 0 if unknown."""
    releasable: bool = False
    """Whether its engine can release the memory of its devices."""
    released: bool = False
    """Whether an RL trainer has its devices, so that it accepts no requests."""
    released_tags: tuple[str, ...] = ()
    """What is released, of MEMORY_TAGS; empty while it is being released."""
    release_left_s: float = 0.0
    """Seconds until it resumes by itself; infinite without a limit, 0 if nothing is released."""

    @property
    def served(self) -> ServedRelease:
        """The release it serves."""
        return self.release or ServedRelease(id=ReleaseId(version=self.policy_version))


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchDemand:
    """A gateway's message to a worker that it watches."""

    gateway_id: str
    demand: int
    """Requests of the gateway that run on the worker, plus those queued at the gateway."""
    serial: int = 0
    """Rises with every message of a stream."""
    pause: Pause = NO_PAUSE
    """The pause of the fleet as the gateway knows it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchReport:
    """A worker's message to a gateway that watches it."""

    info: WorkerInfo
    slots: int
    """Concurrent requests the gateway may run on the worker."""
    serial: int = 0
    """Serial of the last demand the worker received on the stream; 0 before the first."""
    pause: Pause = NO_PAUSE
    """The latest pause that any gateway has sent to the worker."""
    kept: tuple[str, ...] = ()
    """Keys of the responses that the worker keeps because their stream broke."""
    rounds: WorkedRounds = NO_ROUNDS
    """The worker's last report of the costs of its rounds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A connected worker."""

    hello: WorkerHello
    status: WorkerStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class MembershipChange:
    """Change of the set of workers that accept requests."""

    is_change: bool = False
    """Whether this is a delta to an earlier list; otherwise `joined` is the whole list."""
    joined: tuple[Member, ...] = ()
    left: tuple[WorkerId, ...] = ()
    lending: bool = False
    """Whether idle workers are lent to drafter training."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """Permission for a worker to train for `ttl_s` seconds after receipt. A higher epoch replaces it."""

    epoch: Epoch
    ttl_s: float
    newest: DrafterVersion | None = field(default=None, compare=False)
    """Newest drafter of the fleet when the lease was granted or renewed; 0 if none was published, None if unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Revocation:
    """Revokes the lease of an epoch."""

    epoch: Epoch


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportInterval:
    """Reporting interval of a worker while nothing changes."""

    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class DrafterWish:
    """The drafter every worker should use."""

    version: DrafterVersion
    uri: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DrafterRecord:
    """A published drafter."""

    version: DrafterVersion
    worker_id: WorkerId
    at_unix_s: float
    held_out_top1: float
    """Share of held-out positions predicted correctly; 0 if not measured, as for drafters from outside the fleet."""
    policy_version: PolicyVersion = PolicyVersion(0)
    """Newest policy version that generated the held-out data."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Publication:
    """A drafter offered to the fleet."""

    base: DrafterVersion
    """Version it was trained from; 0 if trained from scratch."""
    uri: str
    worker_id: WorkerId
    held_out_top1: float
    """Share of held-out positions whose most likely token it predicts."""
    base_top1: float | None = None
    """The same share for the base on the same positions; None if the base was not scored."""
    policy_version: PolicyVersion = PolicyVersion(0)
    """Newest policy version that generated the held-out data."""
    tokens: int = 0
    """States that it has learned from, across restarts and all contributing trainers; 0 if unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerAccount:
    """A worker and its device-seconds."""

    hello: WorkerHello
    status: WorkerStatus
    seconds: Mapping[WorkerState, float]
    """Device-seconds. A worker with N devices accumulates N per second."""
    timeline: tuple[StateChange, ...]
    unsettled: Mapping[WorkerState, float] = field(default_factory=dict)
    """The part of `seconds` that counts as training once the trainer has confirmed it."""
    standing: str = ""
    """Why it is or is not lent: a `Standing`, or another value from a newer coordinator."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """Current status of the fleet."""

    workers: tuple[WorkerAccount, ...]
    queued: int
    drafter: DrafterWish | None
    drafters: tuple[DrafterRecord, ...]
    lending: bool
    bubble_utilisation: float
    """Training divided by all bubbles since start; 0 if there were no bubbles."""
    pause_left_s: float = 0.0
    """Seconds until a pause of generation expires; infinite without a limit, 0 while generation is not paused."""


def in_a_line(problem: str) -> str:
    """Return a problem on one line of at most MAX_PROBLEM printable characters."""
    line = " ".join(problem.split())
    return "".join(letter for letter in line if letter.isprintable())[:MAX_PROBLEM]


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingProgress:
    """Progress of a spot trainer."""

    training: bool
    steps: int
    """Optimizer steps on the drafter, across restarts."""
    tokens: int
    training_s: float
    """Seconds of training since the process started; never decreases."""
    loss: float
    held_out_top1: float
    drafter_version: DrafterVersion
    """Last published or adopted version."""
    policy_version: PolicyVersion = PolicyVersion(0)
    """Policy version that training targets."""
    resting: bool = False
    """Whether nothing is left to learn from this policy and the known data."""
    gain: float | None = None
    """Recent gain in held-out tokens per round, per second of training; None if unknown."""
    passes: float = 0.0
    """Average number of training passes over the data."""
    problem: str = ""
    """Why it cannot continue from the fleet's drafter, in one sentence; empty if it can."""
