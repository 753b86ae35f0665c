"""What is known of one arm, however it is judged."""

from collections.abc import Sequence
from typing import Protocol

from tlt_common.domain.strategy import Arm, ArmWindow


class Track(Protocol):
    """One arm's record. Worth is in tokens per second, comparable among arms at one batch-size bucket only."""

    @property
    def arm(self) -> Arm:
        """Whose record it is."""
        ...

    @property
    def below_requests(self) -> float:
        """The arm may run below so many requests."""
        ...

    def add(self, group: int, accepted: Sequence[int], elapsed_s: float) -> None:
        """Learn from a round of the arm at bucket `group`."""
        ...

    def worth(self, group: int) -> float | None:
        """Say what it is worth in a bucket; None: it has to be tried."""
        ...

    def groups(self) -> Sequence[int]:
        """Buckets where its worth is known, of which others may be guessed."""
        ...

    def drafter_changed(self) -> None:
        """Drop what says nothing of another drafter."""
        ...

    def policy_changed(self) -> None:
        """Doubt what was learned with other weights."""
        ...

    def merge(self, windows: Sequence[ArmWindow]) -> None:
        """Take over what the fleet knows of this arm, in place of what was taken over before."""
        ...
