"""Training samples for TRL's AsyncGRPOTrainer: single responses or conversations with tools."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Episode:
    """One sampled completion. `token_ids`, `logprobs` and `sampled` have the same length."""

    prompt: Any
    """Text or a conversation, including the observation of an environment."""
    prompt_ids: Sequence[int]
    completion: Any
    """Text, or the messages of the policy and of tools."""
    token_ids: Sequence[int]
    """Sampled tokens, interleaved with the tokens of tool results."""
    logprobs: Sequence[float]
    """0 for tokens of tool results."""
    sampled: Sequence[bool]
    oldest_version: int
    """The oldest policy version that sampled a token."""
    mean_version: float
    """Mean of the policy versions that sampled its tokens."""
    calls: int = 0
    """Number of tool calls."""
    failures: int = 0
    """Number of failed tool calls."""
    environment: type | None = None
    reward: float | None = None
    """The environment's reward; None if it has none."""

    @property
    def sampled_ids(self) -> list[int]:
        """The tokens that the policy sampled."""
        return [token for token, sampled in zip(self.token_ids, self.sampled, strict=True) if sampled]
