"""Workers, their states and leases, and the fleet's drafter."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from tlt_common.domain.arm.rounds import NO_ROUNDS, WorkedRounds
from tlt_common.domain.ids import DrafterVersion, Epoch, PolicyVersion, WorkerId
from tlt_common.domain.pause import NO_PAUSE, Pause
from tlt_common.domain.weights import ReleaseId, ServedRelease

MEMORY_TAGS = ("weights", "kv_cache", "cuda_graph")
"""What engines can release, by SGLang's names."""

MAX_PROBLEM = 500
"""Characters of a worker's problem."""

HISTORY_CHANGES = 256
"""Changes of state that a worker tells a coordinator which does not know them: 2.3 kB."""


class WorkerState(StrEnum):
    """What a worker uses its devices for. Every device-second is in exactly one state."""

    ROLLOUT = "rollout"
    """At least one request is running."""
    TRAINING = "training"
    """The device computes for drafter training, as measured by the trainer."""
    SWITCHING = "switching"
    """A lease is being granted or revoked, a drafter swapped, or the trainer holds the device without computing."""
    UPDATING = "updating"
    """Policy weights are being loaded."""
    IDLE = "idle"
    """The device is unused: a bubble."""
    STARTING = "starting"
    """Unused, and the spot trainer does not answer yet: a bubble."""
    RESTING = "resting"
    """Unused, and the spot trainer has nothing to learn from: a bubble."""
    TRAINER = "trainer"
    """The RL trainer has the devices: the engine gave their memory back."""
    DOWN = "down"
    """The worker is unreachable."""


FREE = frozenset({WorkerState.IDLE, WorkerState.STARTING, WorkerState.RESTING})
"""States in which devices are unused."""

LENDABLE = FREE | {WorkerState.TRAINING, WorkerState.SWITCHING}
"""States in which nobody else needs the devices."""

BUBBLES = LENDABLE | {WorkerState.UPDATING}
"""States in which devices of the fleet generate nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StateChange:
    """Transition of a worker to a state."""

    state: WorkerState
    at_unix_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PastChange:
    """Transition of a worker to a state, some seconds ago: clocks of machines differ."""

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
    """Whether it understands a ReportInterval."""
    devices: int = 1
    """How many its engine uses: tensor-parallel ranks."""
    training_devices: int = 1
    """How many of them its trainer uses."""
    history: tuple[PastChange, ...] = ()
    """Its latest changes of state, oldest first; empty in what is shown of a worker."""


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
    """Recent tokens per verification round, bonus token included; 0 if nothing ran."""
    produced_tokens: int = 0
    arm: str = ""
    training_steps: int = 0
    training_tokens: int = 0
    """States that its trainer's drafter has learned from, over restarts and by all trainers whose work it contains."""
    training_loss: float = 0.0
    trainer_ready: bool = False
    lent: bool = False
    """Whether the trainer may be computing on the device."""
    training_s: float = 0.0
    """Device-seconds computed for training since the worker started, over all its devices; only increases."""
    training_age_s: float = 0.0
    """Seconds since the trainer reported `training_s`; 0 unless lent."""
    trainer_resting: bool = False
    """Whether its trainer has nothing left to learn, and wants no lease."""
    training_gain: float | None = None
    """Held-out tokens per round that its trainer has gained lately per second of training; None: not known."""
    training_passes: float = 0.0
    """How often its trainer has seen the data that it has, on average."""
    drafter_pause_s: float = 0.0
    """Seconds for which the engine paused when it last loaded a drafter."""
    problem: str = ""
    """Why it does not train, or not load the newest drafter, in a sentence; empty: it does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerInfo:
    """Description of a worker for gateways."""

    worker_id: WorkerId
    model: str
    vocab_size: int
    context_length: int
    finds_stop_strings: bool = False
    """Whether it has the model's tokenizer."""
    returns_routed_experts: bool = False
    """Whether its engine returns the experts that tokens were routed to."""
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
    """Whether it is in a trainer's process group, or has collected tensors of an update."""
    kv_room: int = 0
    """Tokens that its KV cache holds; 0: unknown."""
    releasable: bool = False
    """Whether its engine can release the memory of its devices."""
    released: bool = False
    """Whether the RL trainer has its devices: it accepts no requests."""

    @property
    def served(self) -> ServedRelease:
        """The release it serves."""
        return self.release or ServedRelease(id=ReleaseId(version=self.policy_version))


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchDemand:
    """What a gateway tells a worker it watches."""

    gateway_id: str
    demand: int
    """Requests of the gateway that run on the worker, plus those queued at the gateway."""
    serial: int = 0
    """Rises with every message of a stream."""
    pause: Pause = NO_PAUSE
    """The pause of the fleet as the gateway knows it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchReport:
    """What a worker tells a gateway that watches it."""

    info: WorkerInfo
    slots: int
    """Concurrent requests the gateway may run on the worker."""
    serial: int = 0
    """Serial of the last demand the worker received on the stream; 0 before the first."""
    pause: Pause = NO_PAUSE
    """The latest pause that any gateway has told the worker."""
    kept: tuple[str, ...] = ()
    """Keys of the responses that the worker keeps, since their stream has broken."""
    rounds: WorkedRounds = NO_ROUNDS
    """The worker's last report of what its rounds cost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A connected worker."""

    hello: WorkerHello
    status: WorkerStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class MembershipChange:
    """Which workers accept requests."""

    is_change: bool = False
    """Whether this changes an earlier list; otherwise `joined` is the whole list."""
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
    """Newest drafter of the fleet when the lease was granted or renewed; 0: none was published, None: not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Revocation:
    """Revokes the lease of that epoch."""

    epoch: Epoch


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportInterval:
    """How often a worker reports while nothing changes."""

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
    """Share of held-out positions predicted correctly; 0 if not measured, as for a drafter from outside the fleet."""
    policy_version: PolicyVersion = PolicyVersion(0)
    """Newest policy among those that generated the held-out data."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Publication:
    """A drafter offered to the fleet."""

    base: DrafterVersion
    """Version it was trained from; 0: from scratch."""
    uri: str
    worker_id: WorkerId
    held_out_top1: float
    """Share of held-out positions whose most likely token it predicts."""
    base_top1: float | None = None
    """The same share for the base, on the same positions; None: the base was not scored."""
    policy_version: PolicyVersion = PolicyVersion(0)
    """Newest policy among those that generated the held-out data."""
    tokens: int = 0
    """States that it has learned from, over restarts and by all trainers whose work it contains; 0: unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerAccount:
    """A worker and its device-seconds."""

    hello: WorkerHello
    status: WorkerStatus
    seconds: Mapping[WorkerState, float]
    """Device-seconds: of a worker with N devices, N per second."""
    timeline: tuple[StateChange, ...]
    unsettled: Mapping[WorkerState, float] = field(default_factory=dict)
    """The part of `seconds` that counts as training as soon as the trainer says that it computed meanwhile."""
    standing: str = ""
    """Why it is lent, or not; a `Standing`, unless the coordinator is a newer one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """Current status of the fleet."""

    workers: tuple[WorkerAccount, ...]
    queued: int
    drafter: DrafterWish | None
    drafters: tuple[DrafterRecord, ...]
    lending: bool
    bubble_utilisation: float
    """Training / all bubbles since start; 0 if there was no bubble."""
    pause_left_s: float = 0.0
    """Seconds until a pause of generation ends by itself; infinite without a limit, 0 while it is not paused."""


def in_a_line(problem: str) -> str:
    """Return a problem as one line of at most MAX_PROBLEM printable characters."""
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
    """Seconds the device computed for training since the process started; only increases."""
    loss: float
    held_out_top1: float
    drafter_version: DrafterVersion
    """Version last published or adopted."""
    policy_version: PolicyVersion = PolicyVersion(0)
    """Version of the policy that training is for."""
    resting: bool = False
    """Whether nothing is left to learn from this policy and the known data."""
    gain: float | None = None
    """Held-out tokens per round gained lately per second of training; None: not known."""
    passes: float = 0.0
    """How often the data that it has was trained on, on average."""
    problem: str = ""
    """Why it cannot continue from the fleet's drafter, in a sentence; empty: it can."""
