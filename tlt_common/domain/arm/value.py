"""An arm as a value."""

from dataclasses import dataclass

from tlt_common.domain.arm.kind import kind_named


@dataclass(frozen=True, slots=True, order=True)
class Arm:
    """A way to run a round. `steps` = 0 means plain decoding."""

    steps: int
    """Sequential draft steps."""
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
