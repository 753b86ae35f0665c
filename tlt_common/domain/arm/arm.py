"""An arm: a way to run a round, of a registered kind and within limits."""

from dataclasses import dataclass
from typing import Final, Protocol

MAX_STEPS: Final = 16
"""Maximum length of chains and depth of trees; beyond it, a single-layer drafter merely guesses."""
MAX_TOPK: Final = 16
MAX_DRAFT_TOKENS: Final = 128
BLOCK: Final = "block"
"""Kind of the arms of block drafters, which other drafters cannot run, and which run no other learned arms."""


@dataclass(frozen=True, slots=True, order=True)
class Arm:
    """A way to run a round. `steps` = 0 means plain decoding."""

    steps: int
    """Draft tokens on a path: sequential draft steps, or tokens of a block."""
    topk: int = 1
    """Branches per step; 1 means a chain."""
    draft_tokens: int = 1
    """Tokens the target verifies per request, including the last accepted token."""
    kind: str = "off"
    """Name of its `ArmKind`."""
    sampled: bool = False
    """Whether drafts are sampled from the drafter's distribution and verified by rejection, if the request samples."""

    @property
    def needs_drafter(self) -> bool:
        """Whether the loaded drafter produces the drafts. See `ArmKind`."""
        return kind_named(self.kind).needs_drafter

    @property
    def finds_drafts(self) -> bool:
        """Whether drafts are looked up before the round. See `ArmKind`."""
        return kind_named(self.kind).finds_drafts

    @property
    def is_block(self) -> bool:
        """Whether one pass of a block drafter gives all drafts."""
        return self.kind == BLOCK

    @property
    def drafted_tokens(self) -> int:
        """Maximum number of draft tokens the target verifies per request."""
        return self.draft_tokens - 1

    @property
    def name(self) -> str:
        """Stable name for configuration, metrics and messages."""
        return kind_named(self.kind).name_of(self)

    def tells_of(self, other: "Arm") -> bool:
        """Whether a round of this arm shows how many drafts of `other` would have been accepted. See `ArmKind`."""
        return kind_named(self.kind).tells_of(self, other)


class ArmKind(Protocol):
    """A kind of arm: the names of its arms, their requirements, and what their rounds reveal about other arms."""

    @property
    def name(self) -> str:
        """`Arm.kind` of its arms."""
        ...

    @property
    def accepted(self) -> str:
        """Accepted arm names, for error messages."""
        ...

    @property
    def needs_drafter(self) -> bool:
        """
        Whether the loaded drafter produces the drafts.

        Such an arm does not run before a drafter is loaded, and its rewards are dropped when the drafter changes.
        """
        ...

    @property
    def finds_drafts(self) -> bool:
        """
        Whether drafts are looked up before the round, so that there may be too few of them.

        The scheduler then needs a `DraftSource` for the kind (`tlt_worker.scheduler.drafts.sources`).
        """
        ...

    def name_of(self, arm: "Arm") -> str:
        """Return the stable name of an arm of this kind, for configuration, metrics and messages."""
        ...

    def parse(self, name: str) -> "Arm | None":
        """
        Return the arm with this name, or None if the name is not of this kind.

        Raises:
            ValueError: The name is of this kind, but no such arm can run; the message states what is accepted.
        """
        ...

    def tells_of(self, arm: "Arm", other: "Arm") -> bool:
        """
        Whether a round of `arm`, which is of this kind, shows how many drafts of `other` would have been accepted: the
        first `other.steps` of its accepted drafts.
        """
        ...


KINDS: Final[dict[str, ArmKind]] = {}
"""Registered kinds by name."""


def register(kind: ArmKind) -> None:
    """
    Register a kind of arm.

    Raises:
        ValueError: Another kind has the same name.
    """
    if KINDS.setdefault(kind.name, kind) is not kind:
        raise ValueError(f"arm kind {kind.name!r} is registered twice")


def kind_named(name: str) -> ArmKind:
    """
    Return a registered kind.

    Raises:
        ValueError: No kind has this name.
    """
    if name not in KINDS:
        raise ValueError(f"unknown arm kind {name!r}; accepted: {', '.join(KINDS)}")
    return KINDS[name]


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmWindow:
    """Rounds of one arm in one batch-size group."""

    arm: str
    """Name of the arm."""
    group: int
    """Lower bound of the batch-size group."""
    rounds: int
    accepted_tokens: int
    """Draft tokens accepted, over all requests."""
    produced_tokens: int
    elapsed_s: float
    median_reward: float
    """Median reward in tokens per second."""
    drafted_tokens: int = 0
    """Draft tokens verified, over all requests."""
    kv_tokens: int = 0
    """Tokens in the KV cache, summed over rounds; 0 if not counted."""

    @property
    def accept_length(self) -> float:
        """Tokens per request and round, including the bonus token; 0 without rounds."""
        requests = self.produced_tokens - self.accepted_tokens
        return self.produced_tokens / requests if requests else 0.0
