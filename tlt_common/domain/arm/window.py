"""Results of an arm's rounds."""

from dataclasses import dataclass


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
    """In tokens per second."""
    drafted_tokens: int = 0
    """Draft tokens verified, over all requests."""

    @property
    def accept_length(self) -> float:
        """Tokens per request and round, bonus token included; 0 without rounds."""
        requests = self.produced_tokens - self.accepted_tokens
        return self.produced_tokens / requests if requests else 0.0
