"""
Measurements of the fleet that determine how many workers are lent, and when, within the operators' settings.

Pure.
"""

from math import inf

from tlt_common.domain.fleet import WorkerState, WorkerStatus
from tlt_common.domain.ids import WorkerId
from tlt_coordinator.config import LendingPolicy
from tlt_coordinator.lending.idle_times import IdleTimes
from tlt_coordinator.lending.worth import Worth

UNKNOWN_SETTLE_S = 0.3
"""Seconds without a request after which a worker is lent as long as too little is known. Up to 3, a run takes as long
(docs/results/sweeps.md)."""
SURPLUS = 2.0
"""How many times as many workers as pay may train before leases end: what pays is an estimate, and a lease that ends
costs what a new one does."""
LOADING_SHARE = 0.05
"""Share of an engine's time that it pauses to load drafters, at most."""

PAUSE_WEIGHT = 0.2
"""Weight of the latest pause in their mean."""


class Measures:
    """Updated by `note` and `lose`."""

    def __init__(self) -> None:
        self._idle = IdleTimes()
        self._worth = Worth()
        self._pauses_s: dict[WorkerId, float] = {}
        self._pause_s = 0.0

    def note(self, worker_id: WorkerId, status: WorkerStatus, now_s: float) -> None:
        """Record a worker's report."""
        self._idle.note(worker_id, status.state, now_s)
        self._worth.note(worker_id, status)
        if status.drafter_pause_s != self._pauses_s.get(worker_id):
            self._pauses_s[worker_id] = status.drafter_pause_s
            self._pause_s += PAUSE_WEIGHT * (status.drafter_pause_s - self._pause_s)

    def lose(self, worker_id: WorkerId, now_s: float) -> None:
        """Record that a worker is gone."""
        self._idle.note(worker_id, WorkerState.DOWN, now_s)
        self._worth.note(worker_id, None)
        self._pauses_s.pop(worker_id, None)

    def settle_s(self, policy: LendingPolicy, now_s: float) -> float:
        """Return after how many seconds without a request a worker is lent; infinite for never."""
        if policy.settle_s is not None:
            return policy.settle_s
        measured_s = self._idle.settle_s(now_s)
        return UNKNOWN_SETTLE_S if measured_s is None else measured_s

    def trainers(self, policy: LendingPolicy, now_s: float) -> float:
        """Return the maximum number of training workers; infinite for all."""
        if policy.max_trainers is not None:
            return policy.max_trainers
        settle_s = self.settle_s(policy, now_s)
        return self._worth.trainers(None if settle_s == inf else self._idle.left_s(settle_s))

    def surplus(self, loans: int, policy: LendingPolicy, now_s: float) -> int:
        """Return how many of these leases to end, since more workers train than pay off."""
        wanted = self.trainers(policy, now_s)
        if policy.max_trainers is None and loans <= SURPLUS * wanted:
            return 0
        return int(max(0.0, loans - wanted))

    def value(self, worker_id: WorkerId) -> float:
        """Return the value of a worker's lease per second; infinite if unknown."""
        return self._worth.gain(worker_id)

    @property
    def publish_every_s(self) -> float:
        """Seconds between two drafters that engines load."""
        return self._pause_s / LOADING_SHARE
