"""
Selects the workers for the next plan: those that changed, those whose time has come, and those to lend. Pure.

The cost of a plan depends on the number of changes, not of workers: with ten thousand workers, looking at all of them
after every report would take all of the coordinator's time.
"""

from collections.abc import Callable
from heapq import nsmallest
from itertools import islice

from tlt_common.domain.ids import WorkerId
from tlt_coordinator.config import LendingPolicy
from tlt_coordinator.lending.by_age import ByAge
from tlt_coordinator.lending.decision import WorkerView, obstacle_of

STEP_WORKERS = 16
"""Workers of each kind in one plan; the next plan follows at once, after reports that have arrived meanwhile. No order
leaves before its plan is complete, and an order takes longer to record and send than to decide."""

COMPARED = 64
"""Leases that are compared by their value, since a plan may not look at all."""


class Worklist:
    """An index of workers, kept up to date by `note` after every change of one."""

    def __init__(self) -> None:
        self._changed: dict[WorkerId, None] = {}
        self._loans = ByAge()
        """By their last renewal."""
        self._offered = ByAge()
        """Loans that the worker has not reported yet, by the time they were granted."""
        self._lendable = ByAge()
        """Free workers with a trainer that has something to learn, by the time since which they are."""

    @property
    def loans(self) -> int:
        """Number of leases that were granted and have not ended."""
        return len(self._loans)

    @property
    def has_changes(self) -> bool:
        """Whether there are changed workers that have not been taken."""
        return bool(self._changed)

    def note(self, view: WorkerView, now_s: float) -> None:
        """Index a worker as it is now."""
        worker_id, loan = view.worker_id, view.loan
        self._changed[worker_id] = None
        if loan is None:
            self._loans.drop(worker_id)
            self._offered.drop(worker_id)
        else:
            if worker_id not in self._loans or loan.renewed_at_s == now_s:
                self._loans.mark(worker_id, loan.renewed_at_s)
            if loan.taken_up:
                self._offered.drop(worker_id)
            elif worker_id not in self._offered:
                self._offered.mark(worker_id, loan.granted_at_s)
        if obstacle_of(view) is not None:
            self._lendable.drop(worker_id)
        elif worker_id not in self._lendable:
            self._lendable.mark(worker_id, now_s)

    def forget(self, worker_id: WorkerId) -> None:
        """Remove a worker that left."""
        self._changed.pop(worker_id, None)
        for kind in (self._loans, self._offered, self._lendable):
            kind.drop(worker_id)

    def take(self, now_s: float, policy: LendingPolicy, *, ends: bool) -> list[WorkerId]:
        """
        Return the workers to decide about, apart from new loans. Changed workers are returned once.

        Args:
            now_s: Current time.
            policy: Lending policy, which determines when leases are renewed and expire.
            ends: Whether all loans end now.
        """
        chosen = dict.fromkeys(islice(self._changed, STEP_WORKERS))
        for worker_id in chosen:
            del self._changed[worker_id]
        chosen |= dict.fromkeys(self._loans.oldest(STEP_WORKERS) if ends else ())
        chosen |= dict.fromkeys(self._loans.at_least(policy.lease_ttl_s / 3, now_s, STEP_WORKERS))
        chosen |= dict.fromkeys(self._offered.at_least(policy.lease_ttl_s, now_s, STEP_WORKERS))
        return list(chosen)

    def idle_s(self, worker_id: WorkerId, now_s: float) -> float | None:
        """Return the seconds since which a worker could be lent; None if it cannot."""
        return self._lendable.age_s(worker_id, now_s)

    def settled(self, now_s: float, *, settle_s: float, most: float) -> list[WorkerId]:
        """
        Return workers to lend, idle longest first.

        Args:
            now_s: Current time.
            settle_s: Seconds for which they must have been free.
            most: Maximum number of concurrent leases.
        """
        count = min(STEP_WORKERS, most - len(self._loans))
        return self._lendable.at_least(settle_s, now_s, max(0, int(count)))

    def least(self, count: int, value: Callable[[WorkerId], float]) -> list[WorkerId]:
        """Return workers with a lease: first those that have not reported it, then the least valuable of a sample."""
        count = min(count, STEP_WORKERS)
        offered = self._offered.oldest(count)
        known = set(offered)
        others = [worker_id for worker_id in self._loans.oldest(COMPARED) if worker_id not in known]
        return offered + nsmallest(count - len(offered), others, key=value)
