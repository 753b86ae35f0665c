"""Pauses of generation."""

from dataclasses import dataclass
from enum import StrEnum

from tlt_common.domain.ids import Epoch


class PauseMode(StrEnum):
    """Handling of running requests when generation pauses."""

    ABORT = "abort"
    """Running and queued requests end with FinishReason.ABORT."""
    KEEP = "keep"
    """Running requests leave their workers and continue later from their current tokens."""
    WAIT = "wait"
    """Running requests finish before the pause is complete."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """A pause of a fleet's generation. Of two pauses, the one with the higher epoch wins."""

    epoch: Epoch = Epoch(0)
    """Rises with every pause, renewal and end; 0 before the first pause."""
    left_s: float = 0.0
    """Seconds until the pause expires; infinite without a limit, 0 while generation is not paused."""

    @property
    def holds(self) -> bool:
        """Whether generation is paused."""
        return self.left_s > 0


NO_PAUSE = Pause()
