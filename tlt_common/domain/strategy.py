"""Speculation strategies: what an engine may do in one round."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

MOST_STEPS = 16
"""Longest chain and deepest tree: beyond it a drafter of one layer is guessing."""
MOST_TOPK = 16
MOST_DRAFT_TOKENS = 128


class DrafterKind(StrEnum):
    """What makes the drafts."""

    NONE = "none"
    EAGLE = "eagle"
    """The learned drafter that is loaded, EAGLE or EAGLE-3."""
    NGRAM = "ngram"
    """Retrieval from what the request, its siblings and their predecessors said."""


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
    sampled: bool = False
    """Drafts are drawn from the drafter's distribution and verified by rejection, where the request samples."""

    @property
    def learned(self) -> bool:
        """Whether the loaded drafter makes the drafts: without one it cannot run, with another it earns otherwise."""
        return self.kind == DrafterKind.EAGLE

    @property
    def drafted_tokens(self) -> int:
        """Most draft tokens that the target verifies per request."""
        return self.draft_tokens - 1

    @property
    def name(self) -> str:
        """Stable name, for configuration, metrics and messages."""
        if self.steps == 0:
            return "off"
        if self.kind == DrafterKind.NGRAM:
            return f"ngram-{self.steps}"
        if self.topk > 1:
            return f"tree-{self.steps}x{self.topk}-{self.draft_tokens}"
        return f"chain-{self.steps}" if self.sampled else f"chain-{self.steps}-top1"


def chain(steps: int, *, sampled: bool = True) -> Arm:
    """Return the arm that drafts `steps` tokens one after the other, sampled or the drafter's best."""
    return Arm(steps, 1, steps + 1, DrafterKind.EAGLE, sampled)


def tree(steps: int, topk: int, draft_tokens: int) -> Arm:
    """Return the arm that grows `topk` branches for `steps` steps and verifies the best `draft_tokens` nodes."""
    return Arm(steps, topk, draft_tokens, DrafterKind.EAGLE)


def ngram(steps: int) -> Arm:
    """Return the arm that retrieves up to `steps` tokens."""
    return Arm(steps, 1, steps + 1, DrafterKind.NGRAM)


OFF = Arm(0)

ACCEPTED_ARMS = (
    f"off, chain-N and chain-N-top1 and ngram-N with N from 1 to {MOST_STEPS}, and tree-SxK-N with S from 1 to "
    f"{MOST_STEPS} steps, K from 2 to {MOST_TOPK} branches and N tokens to verify"
)
_NAME = re.compile(r"(?:chain-(\d+)(-top1)?|ngram-(\d+)|tree-(\d+)x(\d+)-(\d+))")


def arm_named(name: str) -> Arm:
    """
    Find the arm of that name.

    Raises:
        ValueError: There is none, or its tree cannot have so many nodes; says what is accepted.
    """
    if name == OFF.name:
        return OFF
    if (found := _NAME.fullmatch(name)) is None:
        raise ValueError(f"{name!r} is no arm; accepted: {ACCEPTED_ARMS}")
    steps, top1, looked_up, depth, topk, nodes = found.groups()
    if steps and 1 <= int(steps) <= MOST_STEPS:
        return chain(int(steps), sampled=top1 is None)
    if looked_up and 1 <= int(looked_up) <= MOST_STEPS:
        return ngram(int(looked_up))
    if depth and 1 <= int(depth) <= MOST_STEPS and 2 <= int(topk) <= MOST_TOPK:
        return _checked(tree(int(depth), int(topk), int(nodes)))
    raise ValueError(f"{name!r} is no arm; accepted: {ACCEPTED_ARMS}")


def arms_named(names: Sequence[str]) -> tuple[Arm, ...]:
    """
    Find the arms of these names, in their order.

    Raises:
        ValueError: None is named, one does not exist, or two names mean the same arm; says what is accepted.
    """
    if not names:
        raise ValueError(f"no arm is named; accepted: {ACCEPTED_ARMS}")
    arms = tuple(map(arm_named, names))
    twice = [arm.name for place, arm in enumerate(arms) if arm in arms[:place]]
    if twice:
        raise ValueError(f"{twice[0]!r} is named twice; accepted: each arm once")
    return arms


def _checked(arm: Arm) -> Arm:
    grown = arm.topk + (arm.steps - 1) * arm.topk**2
    most = min(grown + 1, MOST_DRAFT_TOKENS)
    if not arm.steps < arm.draft_tokens <= most:
        raise ValueError(
            f"{arm.name!r} verifies {arm.draft_tokens} tokens; accepted: {arm.steps + 1} to {most} for "
            f"{arm.steps} steps of {arm.topk} branches"
        )
    return arm


DEFAULT_ARMS: tuple[Arm, ...] = (OFF, chain(3), chain(7))
"""Off, short, long: on the demo's CPU model chains of 3 and 7 bracket the best at batch 1 to 16."""


NGRAM_BYTES = 256 * 2**20
"""Default memory of the texts that n-gram arms retrieve from: 1 million tokens, or more where they repeat."""


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
    drafted_tokens: int = 0
    """Draft tokens verified, over all requests."""

    @property
    def accept_length(self) -> float:
        """Tokens per request and round, bonus token included; 0 without rounds."""
        requests = self.produced_tokens - self.accepted_tokens
        return self.produced_tokens / requests if requests else 0.0
