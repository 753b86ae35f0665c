"""
Determines how many trainers pay off. Pure.

What all trainers of a fleet learn together grows with a small power of their number: they continue from one another's
drafters, and what two learn on the same responses is largely the same. So the first lease is worth what a trainer
gains, each further one less, and one that would gain less than `PAY_GAIN` in the time for which it may train is not
granted.
"""

from math import exp, floor, inf

from tlt_common.domain.fleet import PAY_GAIN, WorkerStatus
from tlt_common.domain.ids import WorkerId

TOGETHER = 0.06
"""Power of the number of trainers with which their gain per second grows: two learn 1.04 times as fast as one, more
than four no faster (docs/results/services.md)."""
LASTING_PASSES = 15.0
"""Passes over the same data after which another one is worth 1/e of the first (Muennighoff et al., Scaling
Data-Constrained Language Models, 2023, R*)."""


class Worth:
    """Learning progress reported by the trainers that hold a lease."""

    def __init__(self) -> None:
        self._gains: dict[WorkerId, float] = {}
        self._sum = 0.0
        self._mean: float | None = None  # when a trainer last held a lease

    def note(self, worker_id: WorkerId, status: WorkerStatus | None) -> None:
        """Record a worker's report; None if it is gone."""
        self._sum -= self._gains.pop(worker_id, 0.0)
        if status is None or not status.epoch or status.training_gain is None:
            return
        gain = max(0.0, status.training_gain) * discount(status.training_passes)
        self._gains[worker_id] = gain
        self._sum += gain
        self._mean = max(0.0, self._sum) / len(self._gains)

    def gain(self, worker_id: WorkerId) -> float:
        """Return the gain per second of a worker's trainer; infinite if unknown."""
        return self._gains.get(worker_id, inf)

    def trainers(self, idle_s: float | None) -> float:
        """
        Return the number of trainers that pay off, at least 1; infinite if unknown.

        Args:
            idle_s: Seconds for which a worker is expected to be free; None if unknown.
        """
        if self._mean is None or idle_s is None:
            return inf
        # The gain of n trainers is that of one, times n ** TOGETHER; the n-th adds its derivative, about.
        worth = self._mean * TOGETHER * idle_s / PAY_GAIN
        return max(1, floor(float(worth ** (1.0 / (1.0 - TOGETHER)))))


def discount(passes: float) -> float:
    """Return the value of another pass over data seen this many times, relative to the first pass."""
    return exp(-passes / LASTING_PASSES)
