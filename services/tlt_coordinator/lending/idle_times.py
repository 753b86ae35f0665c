"""
Idle times of workers and the cost of a lease, which determine after how long a worker is lent. Pure.

Both are measured on this fleet. The remaining idle time of a worker that has been free for some time is estimated by
the mean residual life: the mean of longer known idle times, less that time.
"""

from bisect import bisect_right, insort
from collections import deque
from itertools import accumulate
from math import inf

from tlt_common.domain.fleet import LENDABLE, WorkerState
from tlt_common.domain.ids import WorkerId

KEPT = 1024
"""Free times that are known: the last ones."""
LEAST = 16
"""Free times, and changes between rollout and training, below which nothing is said."""
AGES_S = (0.0, 0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 5.0, 7.5, 10.0, 15.0, 30.0, 60.0)
"""Times without a request after which a worker may be lent, in seconds."""
FRESH_S = 1.0
"""Seconds for which an answer counts."""


class IdleTimes:
    """What happened to workers since this coordinator began."""

    def __init__(self) -> None:
        self._free_since_s: dict[WorkerId, float] = {}
        self._switching_since_s: dict[WorkerId, float] = {}
        self._free_s: deque[float] = deque()
        self._sorted_s: list[float] = []
        self._sums_s: list[float] = []
        """Of the longest 1, 2, ... free times; empty: not added up since the last one came. Plans ask more often."""
        self._switch_s: deque[float] = deque(maxlen=KEPT)
        self._settle: tuple[float, float] | None = None  # when it was estimated, and the estimate

    def note(self, worker_id: WorkerId, state: WorkerState, now_s: float) -> None:
        """Record a worker's state. A repeated state changes nothing."""
        if state in LENDABLE:
            self._free_since_s.setdefault(worker_id, now_s)
        elif (since_s := self._free_since_s.pop(worker_id, None)) is not None and state is not WorkerState.DOWN:
            self._add(now_s - since_s)
        if state is WorkerState.SWITCHING:
            self._switching_since_s.setdefault(worker_id, now_s)
        elif (since_s := self._switching_since_s.pop(worker_id, None)) is not None and state is not WorkerState.DOWN:
            self._switch_s.append(now_s - since_s)

    def cost_s(self) -> float | None:
        """Return the mean seconds that a lease takes to start and stop; None if too few leases are known."""
        if len(self._switch_s) < LEAST:
            return None
        return 2.0 * sum(self._switch_s) / len(self._switch_s)

    def left_s(self, age_s: float) -> float | None:
        """
        Return the expected remaining idle time of a worker that has been free for `age_s`; None if too few were free
        that long.
        """
        return self._mean_left_s(age_s, least=LEAST)

    def settle_s(self, now_s: float) -> float | None:
        """
        Return after how many seconds without a request a worker is expected to stay free for longer than a lease costs;
        infinite: never. None: too little is known.
        """
        if self._settle is None or now_s - self._settle[0] > FRESH_S:
            if len(self._sorted_s) < LEAST or (cost_s := self.cost_s()) is None:
                return None
            self._settle = now_s, self._first_age_s(cost_s)
        return self._settle[1]

    def _first_age_s(self, cost_s: float) -> float:
        for age_s in AGES_S:
            left_s = self._mean_left_s(age_s, least=1)
            if left_s is not None and left_s > cost_s:
                return age_s
        return inf

    def _mean_left_s(self, age_s: float, *, least: int) -> float | None:
        longer = len(self._sorted_s) - bisect_right(self._sorted_s, age_s)
        if longer < least:
            return None
        self._sums_s = self._sums_s or list(accumulate(reversed(self._sorted_s)))
        return self._sums_s[longer - 1] / longer - age_s

    def _add(self, seconds: float) -> None:
        if len(self._free_s) == KEPT:
            oldest_s = self._free_s.popleft()
            del self._sorted_s[bisect_right(self._sorted_s, oldest_s) - 1]
        self._free_s.append(seconds)
        insort(self._sorted_s, seconds)
        self._sums_s = []
