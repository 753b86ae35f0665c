"""Pauses of generation."""

from dataclasses import dataclass
from enum import StrEnum

from tlt_common.domain.ids import Epoch


class PauseMode(StrEnum):
    """What happens to running requests when generation pauses."""

    ABORT = "abort"
    """They end with FinishReason.ABORT, and so do queued ones."""
    KEEP = "keep"
    """They leave their workers, and continue later from the tokens they have."""
    WAIT = "wait"
    """They finish before the pause is complete."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """Whether the gateways of a fleet start requests. Of two, the one with the higher epoch holds."""

    epoch: Epoch = Epoch(0)
    """Rises with every pause, renewal and end. 0: there has been none."""
    left_s: float = 0.0
    """Seconds until generation continues by itself; infinite without a limit, 0 while it is not paused."""

    @property
    def holds(self) -> bool:
        """Whether generation is paused."""
        return self.left_s > 0


NO_PAUSE = Pause()
