"""Pauses of generation."""

from enum import StrEnum


class PauseMode(StrEnum):
    """What happens to running requests when generation pauses."""

    ABORT = "abort"
    """They end with FinishReason.ABORT, and so do queued ones."""
    KEEP = "keep"
    """They leave their workers, and continue later from the tokens they have."""
    WAIT = "wait"
    """They finish before the pause is complete."""
