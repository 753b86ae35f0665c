"""Sums of rounds for reports."""

from collections.abc import Sequence

from tlt_common.bandit.reward import reward
from tlt_common.bandit.window import MedianWindow
from tlt_common.domain.arm import ArmWindow


class RoundTally:
    """Rounds of one arm and bucket since the last report. The median covers the last `capacity` rounds."""

    __slots__ = ("_accepted", "_drafted", "_elapsed_s", "_kv_tokens", "_produced", "_rewards", "_rounds")

    def __init__(self, capacity: int) -> None:
        self._rewards = MedianWindow(capacity)
        self._rounds = 0
        self._accepted = 0
        self._produced = 0
        self._drafted = 0
        self._kv_tokens = 0
        self._elapsed_s = 0.0

    def add(self, accepted: Sequence[int], drafted: int, elapsed_s: float, kv_tokens: int = 0) -> None:
        """Count a round."""
        kept = sum(accepted)
        self._rewards.add(reward(accepted, elapsed_s))
        self._rounds += 1
        self._accepted += kept
        self._produced += kept + len(accepted)
        self._drafted += drafted
        self._kv_tokens += kv_tokens
        self._elapsed_s += elapsed_s

    def window(self, arm: str, group: int) -> ArmWindow:
        """Return the sums as a window."""
        return ArmWindow(
            arm=arm,
            group=group,
            rounds=self._rounds,
            accepted_tokens=self._accepted,
            produced_tokens=self._produced,
            drafted_tokens=self._drafted,
            elapsed_s=self._elapsed_s,
            median_reward=self._rewards.median(),
            kv_tokens=self._kv_tokens,
        )
