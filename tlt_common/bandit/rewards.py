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
        self._prior: float | None = None

    def add(self, group: int, accepted: Sequence[int], elapsed_s: float) -> None:
        del group
        self._rewards.add(reward(accepted, elapsed_s))

    def worth(self, group: int) -> float | None:
        del group
        return self._rewards.median() if len(self._rewards) >= TRIAL_ROUNDS else self._prior

    def groups(self) -> Sequence[int]:
        return ()

    def drafter_changed(self) -> None:
        if self.arm.needs_drafter:
            self._rewards, self._prior = MedianWindow(self._capacity), None

    def policy_changed(self) -> None:
        if self.arm != OFF:
            self._rewards, self._prior = MedianWindow(self._capacity), self.worth(0)

    def merge(self, windows: Sequence[ArmWindow]) -> None:
        pooled = [(window.median_reward, window.rounds) for window in windows if window.rounds]
        self._prior = weighted_median(pooled) if pooled else None
