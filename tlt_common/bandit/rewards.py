"""Estimates the worth of an arm as in the paper: the median reward of a window of rounds."""

from collections.abc import Sequence

from tlt_common.bandit.reward import TRIAL_ROUNDS, reward, weighted_median
from tlt_common.bandit.window import MedianWindow
from tlt_common.domain.arm import OFF, Arm, ArmWindow


class RewardTrack:
    """
    One window of rewards per arm, regardless of the batch size, as in the paper (Algorithm 1).

    A new batch size takes effect once its rounds have filled half of the window.
    """

    def __init__(self, arm: Arm, below_requests: float, *, window: int) -> None:
        self.arm = arm
        self.below_requests = below_requests
        self._capacity = window
        self._rewards = MedianWindow(window)
        self._kept: float | None = None
        """Median before the weights changed."""
        self._fleet: float | None = None

    def add(self, group: int, accepted: Sequence[int], elapsed_s: float) -> None:
        del group
        self._rewards.add(reward(accepted, elapsed_s))

    def worth(self, group: int) -> float | None:
        del group
        if len(self._rewards) >= TRIAL_ROUNDS:
            return self._rewards.median()
        return self._fleet if self._kept is None else self._kept

    def groups(self) -> Sequence[int]:
        return ()

    def drafter_changed(self) -> None:
        if self.arm.needs_drafter:
            self._rewards, self._kept, self._fleet = MedianWindow(self._capacity), None, None

    def policy_changed(self) -> None:
        if self.arm != OFF:
            self._kept = self._rewards.median() if len(self._rewards) >= TRIAL_ROUNDS else self._kept
            self._rewards = MedianWindow(self._capacity)

    def merge(self, windows: Sequence[ArmWindow]) -> None:
        pooled = [(window.median_reward, window.rounds) for window in windows if window.rounds]
        self._fleet = weighted_median(pooled) if pooled else None
