"""The workers: which are connected, their status, and the leases they hold."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from tlt_common.domain.fleet import (
    DrafterWish,
    Lease,
    Member,
    ReportInterval,
    Revocation,
    WorkerHello,
    WorkerState,
    WorkerStatus,
    in_a_line,
)
from tlt_common.domain.ids import DrafterVersion, Epoch, PolicyVersion, WorkerId
from tlt_common.errors import AbortedError, InvalidRequestError, TltError, UnavailableError
from tlt_common.telemetry import metrics
from tlt_common.telemetry.log import get_logger
from tlt_coordinator.account.lease_history import LeaseHistory
from tlt_coordinator.account.ledger import Ledger
from tlt_coordinator.account.tally import FleetTally
from tlt_coordinator.config import LendingPolicy
from tlt_coordinator.journal import NO_JOURNAL, CoordinatorJournal
from tlt_coordinator.lending.by_age import ByAge, ChangeLog
from tlt_coordinator.lending.decision import Circumstances, Loan, Reason, Standing, WorkerView, standing_of
from tlt_coordinator.lending.measures import Measures
from tlt_coordinator.lending.orders import Grant, Revoke, RoleChange
from tlt_coordinator.lending.pace import FASTEST_S
from tlt_coordinator.lending.worklist import STEP_WORKERS, Worklist
from tlt_coordinator.outbox import Orders

log = get_logger(__name__)

MAX_GAP_S = 0.5
"""Longest time between two checks for silence, in seconds, that counts in full."""


@dataclass(slots=True, kw_only=True)
class WorkerSession:
    """One stream of a worker. A worker that reconnects gets a new session."""

    hello: WorkerHello
    status: WorkerStatus | None = None
    """None until the first one arrives."""
    loan: Loan | None = None
    revoked: Epoch = Epoch(0)
    """Highest epoch revoked on this stream."""
    report_every_s: float = FASTEST_S
    """Its reporting interval."""
    outbox: Orders = field(default_factory=Orders)
    excluded: bool = False
    """Whether an operator excluded the worker from lending."""

    @property
    def view(self) -> WorkerView | None:
        """The worker in the form that plans use; None if it has not reported yet."""
        if self.status is None:
            return None
        return WorkerView(
            worker_id=self.hello.worker_id,
            status=self.status,
            loan=self.loan,
            revoked=self.revoked,
            excluded=self.excluded,
        )


class Registry:
    """
    Workers by id. Every method is synchronous; times come from the caller, and never go back.

    Only `known` and `wish` iterate over all workers.

    Args:
        ledger: Receives every state.
        now_s: Current time.
        journal: Records every state and lease.
    """

    def __init__(self, ledger: Ledger, now_s: float, journal: CoordinatorJournal = NO_JOURNAL) -> None:
        self._ledger = ledger
        self._journal = journal
        self._sessions: dict[WorkerId, WorkerSession] = {}
        self._known: dict[WorkerId, Member] = {}
        self._excluded: frozenset[WorkerId] = frozenset()
        self._heard = ByAge()
        self._ran_s, self._ran_at_s = 0.0, now_s
        """Seconds in which this process ran on schedule, up to `_ran_at_s`; silence is measured in them."""
        self._worklist = Worklist()
        self.measures = Measures()
        self.opened = 0
        """Streams opened so far."""
        self.membership = ChangeLog()
        """Workers that began or ceased to accept requests."""
        self.changes = ChangeLog()
        """Workers whose state, lease or drafter changed."""
        self.loaded = DrafterVersion(0)
        """Newest drafter version that a worker ever reported."""
        self.policy = PolicyVersion(0)
        """Newest policy version that a worker ever reported."""
        self.tally = FleetTally()
        self.leases = LeaseHistory()

    def join(self, hello: WorkerHello, now_s: float) -> WorkerSession:
        """
        Open a session for a worker. An older stream of the same id is closed.

        Raises:
            InvalidRequestError: The hello has no worker id or no address.
        """
        for name, value in (("worker_id", hello.worker_id), ("address", hello.address)):
            if not value:
                raise InvalidRequestError(f"hello.{name} is empty; accepted: a non-empty string", field=f"hello.{name}")
        former = self._sessions.get(hello.worker_id)
        if former is not None:
            self.leave(former, now_s, AbortedError(f"{hello.worker_id} opened a newer stream; this one has ended"))
        self._ledger.join(hello, now_s)
        hello = replace(hello, history=())
        is_excluded = hello.worker_id in self._excluded
        session = self._sessions[hello.worker_id] = WorkerSession(hello=hello, excluded=is_excluded)
        self.opened += 1
        self._heard.mark(hello.worker_id, self._ran(now_s))
        self._journal.joined(hello)
        self._set_down(session, now_s)
        log.info("worker_joined", worker_id=hello.worker_id, address=hello.address, device=hello.device)
        return session

    def report(self, session: WorkerSession, status: WorkerStatus, now_s: float) -> bool:
        """Record a worker's status; return whether it was its first. Ignored if the session has ended."""
        if not self._is_current(session):
            return False
        worker_id, former, loan = session.hello.worker_id, session.status, session.loan
        if loan is not None and not loan.taken_up and status.epoch == loan.epoch:
            session.loan = replace(loan, taken_up=True)
        session.status = status
        self._know(Member(hello=session.hello, status=status), now_s)
        self._heard.mark(worker_id, self._ran(now_s))
        self._ledger.report(worker_id, status, now_s)
        self.measures.note(worker_id, status, now_s)
        if former is None or former.state is not status.state:
            self._journal.state(worker_id, status.state)
        self.loaded = max(self.loaded, status.drafter_version)
        self.policy = max(self.policy, status.policy_version)
        if former is None or session.loan is not loan or _decisive(former) != _decisive(status):
            self._note(session, now_s)
        if former is None:
            self.membership.mark(worker_id)
        if former is None or _shown(former) != _shown(status):
            self.changes.mark(worker_id)
        return former is None

    def leave(self, session: WorkerSession, now_s: float, error: TltError | None = None) -> None:
        """End a worker's stream, with an error if one is given. Idempotent."""
        if self._is_current(session):
            worker_id = session.hello.worker_id
            del self._sessions[worker_id]
            self._heard.drop(worker_id)
            self._worklist.forget(worker_id)
            self._set_down(session, now_s, why=error.message if error else "its connection ended")
            self.membership.mark(worker_id)
            session.outbox.close(error)
            log.info(
                "worker_left", worker_id=session.hello.worker_id, reason=error.message if error else "stream closed"
            )

    def drop_silent(self, silence_s: float, now_s: float) -> int:
        """
        End the streams of workers that have sent no status for this many seconds; return how many.

        At most STEP_WORKERS are ended per call.

        Call it at least every MAX_GAP_S. A longer gap means that this process was stopped or starved: what workers sent
        meanwhile has not been read yet, so that the rest of the gap does not count as silence.
        """
        self._ran_s, self._ran_at_s = self._ran(now_s), now_s
        silent = self._heard.at_least(silence_s, self._ran_s, STEP_WORKERS)
        for worker_id in silent:
            error = UnavailableError(f"no status was received for {silence_s:g} s")
            self.leave(self._sessions[worker_id], now_s, error)
        return len(silent)

    def to_decide(
        self, now_s: float, policy: LendingPolicy, *, ends: bool, also: tuple[WorkerView, ...] = ()
    ) -> tuple[WorkerView, ...]:
        """
        Return workers that may hold a lease to renew or to revoke. Those that changed are returned once.

        Args:
            now_s: Current time.
            policy: When leases are renewed and expire.
            ends: Whether all loans end now.
            also: Others to return.
        """
        chosen = self._views(self._worklist.take(now_s, policy, ends=ends))
        known = {worker.worker_id for worker in chosen}
        return (*chosen, *(worker for worker in also if worker.worker_id not in known))

    def exclude(self, worker_ids: frozenset[WorkerId], now_s: float) -> None:
        """Set the workers that are not lent, whether they are connected or not."""
        for worker_id in self._excluded ^ worker_ids:
            session = self._sessions.get(worker_id)
            if session is not None:
                session.excluded = worker_id in worker_ids
                self._note(session, now_s)
        self._excluded = worker_ids

    def standing(self, worker_id: WorkerId, now: Circumstances, now_s: float) -> Standing:
        """Return why a worker is or is not lent."""
        session = self._sessions.get(worker_id)
        return standing_of(session.view if session else None, self._worklist.idle_s(worker_id, now_s), now)

    @property
    def connected(self) -> int:
        """Number of open streams."""
        return len(self._sessions)

    @property
    def undecided(self) -> bool:
        """Whether `to_decide` has not returned all workers that changed."""
        return self._worklist.has_changes

    @property
    def loans(self) -> int:
        """Number of leases that were granted and have not ended."""
        return self._worklist.loans

    def settled(self, now_s: float, policy: LendingPolicy) -> tuple[WorkerView, ...]:
        """Return free workers to lend, idle longest first, at most as many as pay off."""
        settle_s, most = self.measures.settle_s(policy, now_s), self.measures.trainers(policy, now_s)
        return self._views(self._worklist.settled(now_s, settle_s=settle_s, most=most))

    def least(self, count: int) -> tuple[WorkerView, ...]:
        """Return the least valuable workers with a lease, from a bounded sample."""
        return self._views(self._worklist.least(count, self.measures.value)) if count > 0 else ()

    def member(self, worker_id: WorkerId) -> Member | None:
        """Return a worker if it can accept requests."""
        session = self._sessions.get(worker_id)
        return self._known[worker_id] if session is not None and session.status is not None else None

    def known(self) -> tuple[Member, ...]:
        """Return all workers ever seen, with their last status; state `down` if disconnected."""
        return tuple(self._known.values())

    def has_seen(self, worker_id: WorkerId) -> bool:
        """Whether a worker was ever seen."""
        return worker_id in self._known

    def last_known(self, worker_id: WorkerId) -> Member:
        """
        Return a worker with its last status.

        Raises:
            KeyError: The worker was never seen.
        """
        return self._known[worker_id]

    def carry_out(self, changes: Iterable[RoleChange], now_s: float) -> None:
        """Send the orders to the workers and record the loans."""
        for change in changes:
            session = self._sessions[change.worker_id]
            match change:
                case Grant(lease=lease):
                    self._grant(session, lease, now_s)
                case Revoke(revocation=revocation, reason=reason):
                    self._revoke(session, revocation, reason)
            self._note(session, now_s)

    def set_pace(self, session: WorkerSession, report_every_s: float) -> None:
        """Tell a worker its reporting interval, if it supports that and the interval has changed."""
        if session.hello.accepts_report_interval and session.report_every_s != report_every_s:
            session.report_every_s = report_every_s
            session.outbox.put(ReportInterval(seconds=report_every_s))

    def close(self, error: TltError) -> None:
        """End all streams with this error."""
        for session in self._sessions.values():
            session.outbox.close(error)

    def wish(self, wish: DrafterWish) -> None:
        """Tell all connected workers to load a drafter."""
        for session in self._sessions.values():
            session.outbox.put(wish)

    def _grant(self, session: WorkerSession, lease: Lease, now_s: float) -> None:
        if session.loan is not None and session.loan.epoch == lease.epoch:
            session.loan = replace(session.loan, renewed_at_s=now_s)
        else:
            session.loan = Loan(epoch=lease.epoch, granted_at_s=now_s, renewed_at_s=now_s)
            metrics.LEASES_GRANTED.inc()
            self._journal.granted(session.hello.worker_id, lease.epoch)
            log.info("lease_granted", worker_id=session.hello.worker_id, epoch=lease.epoch)
        session.outbox.put(lease)

    def _revoke(self, session: WorkerSession, revocation: Revocation, reason: Reason) -> None:
        session.loan, session.revoked = None, max(session.revoked, revocation.epoch)
        session.outbox.put(revocation)
        metrics.LEASES_REVOKED.labels(reason=reason).inc()
        self._journal.revoked(session.hello.worker_id, revocation.epoch, reason)
        log.info("lease_revoked", worker_id=session.hello.worker_id, epoch=revocation.epoch, reason=reason)

    def _ran(self, now_s: float) -> float:
        return self._ran_s + min(now_s - self._ran_at_s, MAX_GAP_S)

    def _views(self, worker_ids: Iterable[WorkerId]) -> tuple[WorkerView, ...]:
        views = (self._sessions[worker_id].view for worker_id in worker_ids)
        return tuple(view for view in views if view is not None)

    def _note(self, session: WorkerSession, now_s: float) -> None:
        if (view := session.view) is not None:
            self._worklist.note(view, now_s)

    def _know(self, member: Member, now_s: float) -> None:
        worker_id = member.hello.worker_id
        self.tally.replace(self._known.get(worker_id), member)
        self.leases.note(worker_id, member.status.epoch, now_s)
        self._known[worker_id] = member

    def _is_current(self, session: WorkerSession) -> bool:
        return self._sessions.get(session.hello.worker_id) is session

    def _set_down(self, session: WorkerSession, now_s: float, why: str = "") -> None:
        """Record that a worker is down. Its last problem is kept: one whose engine died said so before it left."""
        worker_id = session.hello.worker_id
        last = self._known[worker_id].status if worker_id in self._known else WorkerStatus()
        down = replace(
            last,
            state=WorkerState.DOWN,
            running=0,
            epoch=Epoch(0),
            trainer_ready=False,
            lent=False,
            training_age_s=0.0,
            problem=in_a_line("; ".join(filter(None, (why, last.problem)))),
        )
        self._know(Member(hello=session.hello, status=down), now_s)
        if last.state is not WorkerState.DOWN:
            self._journal.state(worker_id, WorkerState.DOWN)
        self._ledger.lose(worker_id, now_s)
        self.measures.lose(worker_id, now_s)
        self.changes.mark(worker_id)


def _shown(status: WorkerStatus) -> object:
    return status.state, status.epoch, status.drafter_version


def _decisive(status: WorkerStatus) -> object:
    """Return the properties that plans depend on. While they are unchanged, a report needs no decision."""
    return status.state, status.running > 0, status.epoch, status.trainer_ready, status.trainer_resting
