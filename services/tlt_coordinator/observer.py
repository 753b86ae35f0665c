"""Read-only view of a coordinator. The cost of a method depends on its result, not on the size of the fleet."""

from bisect import bisect_right
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice

from tlt_common.aio import Pieces
from tlt_common.domain.fleet import DrafterRecord, Fleet, Member, WorkerAccount, WorkerState
from tlt_common.domain.ids import DrafterVersion, PolicyVersion, WorkerId
from tlt_common.errors import NotFoundError
from tlt_common.timeline import WorkerTrack
from tlt_coordinator.account.changes_shown import CHANGES_AT_ONCE, WORKER_COST, changes_per_worker
from tlt_coordinator.account.lease_history import PastLease
from tlt_coordinator.account.ledger import Ledger
from tlt_coordinator.account.steps import PolicyUpdate, RunStep, Steps
from tlt_coordinator.drafters.published import PublishedDrafters
from tlt_coordinator.lending.decision import Circumstances
from tlt_coordinator.lengths import ReportedLengths
from tlt_coordinator.queues import Queues
from tlt_coordinator.registry import Registry


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedWorker:
    """Current state of a worker."""

    member: Member
    since_s: float
    """Unix time since which it is in its state."""
    standing: str
    """Why it is or is not lent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedFleet:
    """Figures of the whole fleet. Times are Unix seconds."""

    at_s: float
    since_s: float
    """Since when something is known."""
    by_state: Mapping[WorkerState, int]
    devices: int
    seconds: Mapping[WorkerState, float]
    bubble_utilisation: float
    lending: bool
    queued: int
    running: int
    pause_left_s: float
    policy: PolicyVersion
    drafter: DrafterVersion
    accept_length: float | None
    excluded: int


class Observer:
    """
    Reads the parts of one coordinator. All methods but `accounts` are synchronous, so that each answer is consistent.

    Args:
        now: Returns the time of the coordinator's clock.
        circumstances: Returns the conditions that apply to all workers.
        excluded: Returns the number of workers excluded from lending.
        pieces: Runs long work in pieces.
        forget_silent: Ends the step of gateways that have stopped reporting.
    """

    def __init__(
        self,
        *,
        now: Callable[[], float],
        registry: Registry,
        ledger: Ledger,
        queues: Queues,
        lengths: ReportedLengths,
        drafters: PublishedDrafters,
        steps: Steps,
        circumstances: Callable[[float], Circumstances],
        excluded: Callable[[], int],
        pieces: Pieces,
        forget_silent: Callable[[], None],
    ) -> None:
        self.now = now
        self._registry = registry
        self._ledger = ledger
        self._queues = queues
        self._drafters = drafters
        self._steps = steps
        self._circumstances = circumstances
        self._excluded = excluded
        self._began_s = now()
        self.lengths = lengths
        self.pieces = pieces
        self._forget_silent = forget_silent

    @property
    def since_s(self) -> float:
        """Unix time of the earliest data: the coordinator's start, or the history of the first workers."""
        return min(self._began_s, self._ledger.since_s or self._began_s)

    def fleet(self) -> ObservedFleet:
        """Return the figures of the fleet."""
        now_s, tally = self.now(), self._registry.tally
        circumstances = self._circumstances(now_s)
        return ObservedFleet(
            at_s=now_s,
            since_s=self.since_s,
            by_state=dict(tally.by_state),
            devices=tally.devices,
            seconds=self._ledger.totals(now_s),
            bubble_utilisation=self._ledger.bubbles(now_s).utilisation,
            lending=circumstances.lending,
            queued=circumstances.queued,
            running=tally.running,
            pause_left_s=self._queues.pause_left_s(now_s),
            policy=self._registry.policy,
            drafter=self._drafters.version,
            accept_length=tally.accept_length,
            excluded=self._excluded(),
        )

    @property
    def worker_ids(self) -> Sequence[WorkerId]:
        """All workers ever seen, in order of their ids; grows, and is not to be changed."""
        return self._ledger.worker_ids

    def ids_after(self, worker_id: str, count: int) -> list[WorkerId]:
        """Return up to `count` workers whose ids come after one, in order."""
        ids = self._ledger.worker_ids
        first = bisect_right(ids, WorkerId(worker_id))
        return list(islice(ids, first, first + count))

    def state(self, worker_id: WorkerId) -> WorkerState:
        """Return a worker's state."""
        return self._registry.last_known(worker_id).status.state

    def workers(self, worker_ids: Sequence[WorkerId]) -> list[ObservedWorker]:
        """Return some workers of those seen."""
        now_s = self.now()
        circumstances = self._circumstances(now_s)
        return [
            ObservedWorker(
                member=self._registry.last_known(worker_id),
                since_s=self._ledger.account(worker_id).state_since_s,
                standing=self._registry.standing(worker_id, circumstances, now_s),
            )
            for worker_id in worker_ids
        ]

    def worker(self, worker_id: WorkerId) -> tuple[ObservedWorker, Mapping[WorkerState, float]]:
        """
        Return a worker and its device-seconds by state.

        Raises:
            NotFoundError: The worker was never seen.
        """
        self.require(worker_id)
        (worker,) = self.workers([worker_id])
        return worker, self._ledger.account(worker_id).seconds(self.now())

    def require(self, worker_id: WorkerId) -> None:
        """
        Raises:
            NotFoundError: The worker was never seen.
        """
        if self._registry.has_seen(worker_id):
            return
        known = ", ".join(self._ledger.worker_ids[:8]) or "none, as no worker has joined"
        raise NotFoundError(f"no worker {worker_id!r:.200} was seen; known: {known}", field="worker")

    def track(self, worker_id: str) -> WorkerTrack:
        """Return a worker's states over time, to be read before any other call."""
        return self._ledger.account(WorkerId(worker_id)).track(worker_id, self.now())

    def changed(self, seen: int) -> tuple[int, list[WorkerId]]:
        """Return the workers whose state, lease or drafter changed since a number was returned, and the next one."""
        return self._registry.changes.since(seen)

    def leases(self, from_s: float, to_s: float) -> list[PastLease]:
        """Return the leases held within a span."""
        return self._registry.leases.between(from_s, to_s, self.now())

    def steps(self, from_s: float, to_s: float) -> list[RunStep]:
        """Return the steps that overlap a span, in order."""
        self._forget_silent()
        return self._steps.between(from_s, to_s)

    def updates(self, from_s: float, to_s: float) -> list[PolicyUpdate]:
        """Return the changes of the policy within a span, in order."""
        return self._steps.updates(from_s, to_s)

    @property
    def drafters(self) -> tuple[DrafterRecord, ...]:
        """Published drafters, oldest first."""
        return self._drafters.records

    def loaded(self, version: DrafterVersion) -> int:
        """Return the number of workers that have loaded a drafter."""
        return self._registry.tally.loaded[version]

    def changes_shown(self, asked: int) -> int:
        """
        Return the number of state changes to show per worker.

        Raises:
            InvalidRequestError: The number asked for is negative, or too large for the number of workers.
        """
        return changes_per_worker(asked, len(self._ledger.worker_ids))

    async def accounts(self, max_changes: int) -> AsyncIterator[list[WorkerAccount]]:
        """Yield all workers in batches, with their latest `max_changes` changes and seconds up to then."""
        members, at_once = self._registry.known(), max(1, CHANGES_AT_ONCE // (max_changes + WORKER_COST))

        def account(some: Sequence[Member]) -> list[WorkerAccount]:
            now_s = self.now()
            circumstances = self._circumstances(now_s)
            return [self._account(member, circumstances, now_s, max_changes) for member in some]

        for first in range(0, len(members), at_once):
            yield await self.pieces.do(partial(account, members[first : first + at_once]))

    def summary(self) -> Fleet:
        """Return the state of the fleet, without its workers."""
        now_s = self.now()
        return Fleet(
            workers=(),
            queued=self._queues.queued(now_s),
            drafter=self._drafters.newest,
            drafters=self._drafters.records,
            lending=self._circumstances(now_s).lending,
            bubble_utilisation=self._ledger.bubbles(now_s).utilisation,
            pause_left_s=self._queues.pause_left_s(now_s),
        )

    def _account(self, member: Member, now: Circumstances, now_s: float, max_changes: int) -> WorkerAccount:
        account = self._ledger.account(member.hello.worker_id)
        return WorkerAccount(
            hello=member.hello,
            status=member.status,
            seconds=account.seconds(now_s),
            timeline=account.timeline(max_changes),
            unsettled=account.unsettled(now_s),
            standing=self._registry.standing(member.hello.worker_id, now, now_s),
        )
