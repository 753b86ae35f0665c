"""Interface of an arm's record, however its worth is estimated."""

from collections.abc import Sequence
from typing import Protocol

from tlt_common.domain.arm import Arm, ArmWindow


class ArmTrack(Protocol):
    """Record of one arm. Worth is in tokens per second; compare it only between arms at the same batch-size bucket."""

    @property
    def arm(self) -> Arm:
        """The recorded arm."""
        ...

    @property
    def below_requests(self) -> float:
        """The arm is allowed below this many running requests."""
        ...

    def add(self, group: int, accepted: Sequence[int], elapsed_s: float) -> None:
        """Learn from a round of the arm at bucket `group`."""
        ...

    def worth(self, group: int) -> float | None:
        """Return its worth at a bucket; None if it must be tried first."""
        ...

    def groups(self) -> Sequence[int]:
        """Return the buckets where its worth is known, from which others can be estimated."""
        ...

    def drafter_changed(self) -> None:
        """Drop results that are not valid for another drafter."""
        ...

    def policy_changed(self) -> None:
        """Reduce the results under earlier weights to a prior."""
        ...

    def merge(self, windows: Sequence[ArmWindow]) -> None:
        """Adopt the fleet's results for this arm, replacing those adopted before."""
        ...
