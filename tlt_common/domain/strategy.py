"""Speculation strategies: what an engine may do in one round."""

from dataclasses import dataclass
from enum import StrEnum


class DrafterKind(StrEnum):
    """What makes the drafts."""

    NONE = "none"
    EAGLE = "eagle"


@dataclass(frozen=True, slots=True, order=True)
class Arm:
    """A way to run a round. `steps` = 0 is plain decoding."""

    steps: int
    """Sequential draft steps."""
    topk: int = 1
    """Branches per step; 1 is a chain."""
    draft_tokens: int = 1
    """Tokens the target verifies per request, the last accepted one included."""
    kind: DrafterKind = DrafterKind.NONE

    @property
    def name(self) -> str:
        """Stable name, for metrics and messages."""
        if self.steps == 0:
            return "off"
        return f"chain-{self.steps}" if self.topk == 1 else f"tree-{self.steps}x{self.topk}-{self.draft_tokens}"


def chain(steps: int) -> Arm:
    """Return the arm that drafts `steps` tokens one after the other."""
    return Arm(steps, 1, steps + 1, DrafterKind.EAGLE)


OFF = Arm(0)
DEFAULT_ARMS: tuple[Arm, ...] = (OFF, chain(3), chain(7))
"""Off, short, long: on the demo's CPU model chains of 3 and 7 bracket the best at batch 1 to 16."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmWindow:
    """Rounds of one arm in one batch-size group."""

    arm: str
    """Name of the arm."""
    group: int
    """Lower bound of the batch-size group."""
    rounds: int
    accepted_tokens: int
    """Draft tokens kept, over all requests."""
    produced_tokens: int
    elapsed_s: float
    median_reward: float
    """Tokens per second."""

    @property
    def accept_length(self) -> float:
        """Tokens per request and round, bonus token included; 0 without rounds."""
        requests = self.produced_tokens - self.accepted_tokens
        return self.produced_tokens / requests if requests else 0.0
