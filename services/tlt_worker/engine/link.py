"""
What passes between a worker and the scheduler process of its engine: ZeroMQ sockets on the local machine.

Up go hidden frames, reports and the start-up report; down go the capture policy, what the fleet has learned, and which
drafter is loaded. Nothing ever waits: a full socket drops the message and counts it. Frames travel as
`tlt_common.codec` writes them, the rest as msgpack of a few fields.
"""

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import msgpack
import zmq

from tlt_common import codec
from tlt_common.bandit import EPSILON, SPECULATE_BELOW_REQUESTS, BanditConfig
from tlt_common.domain.hidden import CapturePolicy, HiddenFrame
from tlt_common.domain.ids import DrafterVersion
from tlt_common.domain.strategy import DEFAULT_ARMS, NGRAM_BYTES, Arm, ArmWindow, DrafterKind
from tlt_common.domain.tuner import Posterior, RoundReport
from tlt_worker.graphs.memory import BACKLOG_BYTES
from tlt_worker.graphs.sharing import Sizes

LINK_VARIABLE: Final = "TLT_ENGINE_LINK"
"""Environment of an engine's processes: `LinkSettings` as JSON. Without it the plug-in does nothing."""

UP_QUEUE_MESSAGES: Final = 1024
"""Most messages that wait for the worker: at 256 states of 4096 bf16 each, 2 GiB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkSettings:
    """What the scheduler process must know before the first message."""

    directory: str
    arms: tuple[Arm, ...] = DEFAULT_ARMS
    epsilon: float = EPSILON
    speculate_below_requests: int = SPECULATE_BELOW_REQUESTS
    group_below_requests: Mapping[int, int] = field(default_factory=dict)
    trace: str = ""
    """File that rounds are written to; empty: none."""
    trace_bytes: int = 2**26
    seed: int = 0
    backlog_bytes: int = BACKLOG_BYTES
    ngram_bytes: int = NGRAM_BYTES
    """Memory of the texts that drafts are retrieved from."""
    lossless: bool = True
    """False leaves SGLang's own verification in place: only for showing that the tests would notice."""
    simulated: bool = False
    """Acceptance is pretended, for benches: responses are not the model's."""
    graph_sizes: Sizes = field(default_factory=dict)
    """Batch sizes of CUDA graphs to capture; empty on a CPU."""
    fits_upto: Mapping[str, int] = field(default_factory=dict)
    """Largest batch at which an arm's work space fits, by name; an arm that is not there fits always."""

    @property
    def bandit(self) -> BanditConfig:
        """How arms are chosen."""
        return BanditConfig(
            epsilon=self.epsilon,
            speculate_below_requests=self.speculate_below_requests,
            group_below_requests=self.group_below_requests,
        )

    @property
    def up(self) -> str:
        """Where the worker listens."""
        return f"ipc://{self.directory}/up"

    @property
    def down(self) -> str:
        """Where the scheduler process hears."""
        return f"ipc://{self.directory}/down"

    def to_json(self) -> str:
        """Write for the environment."""
        return json.dumps(asdict(self))

    def fits(self, arm: Arm, batch: int) -> bool:
        """Whether an arm's work space fits with so many requests running."""
        return batch <= self.fits_upto.get(arm.name, batch)

    @classmethod
    def from_json(cls, text: str) -> "LinkSettings":
        """Read what `to_json` wrote."""
        fields = json.loads(text)
        arms = tuple(Arm(**{**arm, "kind": DrafterKind(arm["kind"])}) for arm in fields.pop("arms"))
        groups = {int(tokens): below for tokens, below in fields.pop("group_below_requests").items()}
        return cls(arms=arms, group_below_requests=groups, **fields)


@dataclass(frozen=True, slots=True, kw_only=True)
class StartReport:
    """The scheduler process has its model; `failure` is empty unless our hooks are missing."""

    failure: str
    hidden_size: int
    max_running: int
    max_total_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ForceArms:
    """Use these arms in turn, one round each; none gives the choice back to the bandit."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DrafterLoaded:
    """Another drafter answers from now on."""

    version: DrafterVersion


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyLoaded:
    """Other weights answer from now on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dropped:
    """So many messages more found the socket full."""

    count: int


Up = HiddenFrame | RoundReport | StartReport | Dropped
Down = CapturePolicy | Posterior | ForceArms | DrafterLoaded | PolicyLoaded

_FRAME = b"F"
_UP = {b"R": RoundReport, b"S": StartReport, b"D": Dropped}
_DOWN = {b"c": CapturePolicy, b"p": Posterior, b"a": ForceArms, b"d": DrafterLoaded, b"w": PolicyLoaded}


def pack(message: Up | Down) -> list[bytes]:
    """Write a message as ZeroMQ parts: a tag and a body."""
    if isinstance(message, HiddenFrame):
        return [_FRAME, codec.encode(message)]
    tag = next(tag for tag, kind in {**_UP, **_DOWN}.items() if kind is type(message))
    return [tag, msgpack.packb(asdict(message))]


def unpack(parts: list[bytes]) -> Up | Down:
    """Read what `pack` wrote."""
    tag, body = parts
    if tag == _FRAME:
        return codec.decode(body)
    kind: type[Any] = {**_UP, **_DOWN}[tag]
    fields = msgpack.unpackb(body)
    if kind is ForceArms:
        fields["names"] = tuple(fields["names"])
    if "arms" in fields:
        fields["arms"] = tuple(ArmWindow(**window) for window in fields["arms"])
    return kind(**fields)  # type: ignore[no-any-return] # one of the classes of Up and Down


@dataclass(slots=True)
class SchedulerEnd:
    """The scheduler process's side: sends up, hears down, never waits."""

    settings: LinkSettings
    dropped: int = 0
    """Messages lost since the worker was last told."""
    _up: Any = field(init=False)
    _down: Any = field(init=False)

    def __post_init__(self) -> None:
        context: Any = zmq.Context.instance()
        self._up = context.socket(zmq.PUSH)
        self._up.set_hwm(UP_QUEUE_MESSAGES)
        self._up.setsockopt(zmq.LINGER, 0)
        self._up.connect(self.settings.up)
        self._down = context.socket(zmq.PULL)
        self._down.connect(self.settings.down)

    def send(self, message: Up) -> bool:
        """Send, or drop and count if the worker does not keep up. It is told how many once there is room again."""
        if not self._sent(message):
            self.dropped += 1
            return False
        if self.dropped and self._sent(Dropped(count=self.dropped)):
            self.dropped = 0
        return True

    def _sent(self, message: Up) -> bool:
        try:
            self._up.send_multipart(pack(message), flags=zmq.NOBLOCK, copy=False)
        except zmq.Again:
            return False
        return True

    def heard(self) -> list[Down]:
        """Return what came down since the last call."""
        messages: list[Down] = []
        while self._down.poll(0):
            messages.append(unpack(self._down.recv_multipart()))  # type: ignore[arg-type] # only Down comes down
        return messages


@dataclass(slots=True)
class WorkerEnd:
    """The worker's side; bound before the engine starts, so that nothing is lost."""

    settings: LinkSettings
    socket_up: Any = field(init=False)
    _down: Any = field(init=False)

    def __post_init__(self) -> None:
        Path(self.settings.directory).mkdir(parents=True, exist_ok=True)
        context: Any = zmq.Context.instance()
        self.socket_up = context.socket(zmq.PULL)
        self.socket_up.set_hwm(UP_QUEUE_MESSAGES)
        self.socket_up.bind(self.settings.up)
        self._down = context.socket(zmq.PUSH)
        self._down.setsockopt(zmq.LINGER, 0)
        self._down.bind(self.settings.down)

    def send(self, message: Down) -> None:
        """Send down, once the engine has reported. To a dead one nothing is sent: `died` tells of it."""
        # A send that waits for a peer that is gone would stop the worker's event loop for ever.
        with suppress(zmq.Again):
            self._down.send_multipart(pack(message), flags=zmq.NOBLOCK)

    def receive(self, timeout_s: float) -> Up | None:
        """Return the next message, or None when none came in time."""
        if not self.socket_up.poll(int(timeout_s * 1000)):
            return None
        return unpack(self.socket_up.recv_multipart())  # type: ignore[return-value] # only Up comes up

    def close(self) -> None:
        """Close both sockets."""
        self.socket_up.close(0)
        self._down.close(0)
