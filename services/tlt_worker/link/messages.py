"""
Messages between a worker and its engine's scheduler process, as parts of a ZeroMQ message.

Up (to the worker) go hidden-state frames, reports and the start report; down go the capture policy, the fleet's
posterior, forced arms and notices of loaded weights. Frames travel as encoded by the scheduler, all others as msgpack.
"""

from dataclasses import asdict, dataclass, field
from typing import Any

import msgpack

from tlt_common import codec
from tlt_common.domain.arm import ArmWindow
from tlt_common.domain.hidden import CapturePolicy, EncodedFrame
from tlt_common.domain.ids import DrafterVersion
from tlt_common.domain.tuner import Posterior, RoundReport


@dataclass(frozen=True, slots=True, kw_only=True)
class StartReport:
    """Sent once the scheduler process has loaded its model. `failure` is empty unless our hooks are missing."""

    failure: str
    hidden_size: int
    max_running: int
    max_total_tokens: int
    gib: dict[str, float] = field(default_factory=dict)
    """Memory held on rank 0's GPU, by row of the plan; empty on a CPU."""
    drafter_bytes: int = 0
    """Bytes of the drafter's own weights on rank 0 when the KV cache was sized."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForceArms:
    """Use these arms in turn, one per round. Without names, return the choice to the bandit."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DrafterLoaded:
    """A new drafter has been loaded."""

    version: DrafterVersion


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyLoaded:
    """New policy weights have been loaded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Warming:
    """
    The engine's warm-up begins or ends. Until it ends, every arm runs, even without a drafter or found drafts, and
    rounds are not recorded.
    """

    on: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Dropped:
    """Counts of messages dropped since the previous message of this type, because the link was full."""

    frames: int
    windows: int
    """Bandit windows in dropped reports."""


Up = EncodedFrame | RoundReport | StartReport | Dropped
Down = CapturePolicy | Posterior | ForceArms | DrafterLoaded | PolicyLoaded | Warming

_FRAME = b"F"
_UP = {b"R": RoundReport, b"S": StartReport, b"D": Dropped}
_DOWN = {b"c": CapturePolicy, b"p": Posterior, b"a": ForceArms, b"d": DrafterLoaded, b"w": PolicyLoaded, b"u": Warming}


def pack(message: Up | Down) -> list[bytes]:
    """Encode a message as ZeroMQ parts: a tag and a body."""
    if isinstance(message, EncodedFrame):
        return [_FRAME, message.blob]
    tag = next(tag for tag, kind in {**_UP, **_DOWN}.items() if kind is type(message))
    return [tag, msgpack.packb(asdict(message))]


def unpack(parts: list[bytes]) -> Up | Down:
    """Decode the output of `pack`."""
    tag, body = parts
    if tag == _FRAME:
        return codec.read(body)
    kind: type[Any] = {**_UP, **_DOWN}[tag]
    fields = msgpack.unpackb(body)
    if kind is ForceArms:
        fields["names"] = tuple(fields["names"])
    if "arms" in fields:
        fields["arms"] = tuple(ArmWindow(**window) for window in fields["arms"])
    return kind(**fields)  # type: ignore[no-any-return] # one of the classes of Up and Down
