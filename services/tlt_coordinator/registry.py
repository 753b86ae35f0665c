"""The workers: who is there, how each is, and what it holds."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from tlt_common.domain.fleet import DrafterWish, Lease, Member, Revocation, WorkerHello, WorkerState, WorkerStatus
from tlt_common.domain.ids import Epoch, WorkerId
from tlt_common.errors import AbortedError, InvalidRequestError, TltError, UnavailableError
from tlt_common.telemetry import metrics
from tlt_common.telemetry.log import get_logger
from tlt_coordinator.ledger import Ledger
from tlt_coordinator.outbox import Outbox
from tlt_coordinator.roles import Grant, Loan, Reason, Revoke, RoleChange, WorkerView

log = get_logger(__name__)


@dataclass(slots=True, kw_only=True)
class Seat:
    """A worker on one stream. One that comes back gets a new seat."""

    hello: WorkerHello
    heard_at_s: float
    since_s: float
    """When it entered the state it reports."""
    status: WorkerStatus | None = None
    """None until the first one arrives."""
    loan: Loan | None = None
    revoked: Epoch = Epoch(0)
    """Highest epoch revoked on this stream."""
    outbox: Outbox = field(default_factory=Outbox)


class Registry:
    """
    Workers by id. Every method is immediate; times come from the caller.

    Args:
        ledger: Told of every state.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._seats: dict[WorkerId, Seat] = {}
        self._known: dict[WorkerId, Member] = {}

    def join(self, hello: WorkerHello, now_s: float) -> Seat:
        """
        Seat a worker. An older stream of the same id is closed.

        Raises:
            InvalidRequestError: The hello names no worker or no address.
        """
        for name, value in (("worker_id", hello.worker_id), ("address", hello.address)):
            if not value:
                raise InvalidRequestError(f"hello.{name} is empty; accepted: a name", field=f"hello.{name}")
        former = self._seats.get(hello.worker_id)
        if former is not None:
            self.leave(former, now_s, AbortedError(f"{hello.worker_id} opened a newer stream; this one is over"))
        seat = self._seats[hello.worker_id] = Seat(hello=hello, heard_at_s=now_s, since_s=now_s)
        self._set_down(seat, now_s)
        log.info("worker_joined", worker_id=hello.worker_id, address=hello.address, device=hello.device)
        return seat

    def report(self, seat: Seat, status: WorkerStatus, now_s: float) -> None:
        """Take a worker's status. Nobody listens to a seat that was left."""
        if not self._is_taken(seat):
            return
        if seat.status is None or status.state is not seat.status.state:
            seat.since_s = now_s
        if seat.loan is not None and status.epoch == seat.loan.epoch:
            seat.loan = replace(seat.loan, taken_up=True)
        seat.heard_at_s, seat.status = now_s, status
        self._known[seat.hello.worker_id] = Member(hello=seat.hello, status=status)
        self._ledger.enter(seat.hello.worker_id, status.state, now_s)

    def leave(self, seat: Seat, now_s: float, error: TltError | None = None) -> None:
        """End a worker's stream, telling it why if there is a reason. Repeating it is harmless."""
        if self._is_taken(seat):
            del self._seats[seat.hello.worker_id]
            self._set_down(seat, now_s)
            seat.outbox.close(error)
            log.info("worker_left", worker_id=seat.hello.worker_id, reason=error.message if error else "hung up")

    def drop_silent(self, silence_s: float, now_s: float) -> None:
        """Give up workers that sent nothing for so long."""
        for seat in tuple(self._seats.values()):
            if now_s - seat.heard_at_s >= silence_s:
                self.leave(seat, now_s, UnavailableError(f"nothing was heard for {silence_s:g} s"))

    def views(self) -> tuple[WorkerView, ...]:
        """Workers that are there and have said how they are."""
        return tuple(
            WorkerView(
                worker_id=worker_id, status=seat.status, since_s=seat.since_s, loan=seat.loan, revoked=seat.revoked
            )
            for worker_id, seat in self._seats.items()
            if seat.status is not None
        )

    def members(self) -> tuple[Member, ...]:
        """Workers that can take requests."""
        return tuple(self._known[view.worker_id] for view in self.views())

    def known(self) -> tuple[Member, ...]:
        """All workers ever seen, as last heard; state `down` when they are gone."""
        return tuple(self._known.values())

    def carry_out(self, changes: Iterable[RoleChange], now_s: float) -> None:
        """Send orders down the streams and keep book of the loans."""
        for change in changes:
            seat = self._seats[change.worker_id]
            match change:
                case Grant(lease=lease):
                    self._grant(seat, lease, now_s)
                case Revoke(revocation=revocation, reason=reason):
                    self._revoke(seat, revocation, reason)

    def close(self, error: TltError) -> None:
        """End all streams, telling the workers why."""
        for seat in self._seats.values():
            seat.outbox.close(error)

    def wish(self, wish: DrafterWish) -> None:
        """Ask all workers that are there to load a drafter."""
        for seat in self._seats.values():
            seat.outbox.put(wish)

    def _grant(self, seat: Seat, lease: Lease, now_s: float) -> None:
        if seat.loan is not None and seat.loan.epoch == lease.epoch:
            seat.loan = replace(seat.loan, renewed_at_s=now_s)
        else:
            seat.loan = Loan(epoch=lease.epoch, granted_at_s=now_s, renewed_at_s=now_s)
            metrics.LEASES_GRANTED.inc()
            log.info("lease_granted", worker_id=seat.hello.worker_id, epoch=lease.epoch)
        seat.outbox.put(lease)

    def _revoke(self, seat: Seat, revocation: Revocation, reason: Reason) -> None:
        seat.loan, seat.revoked = None, max(seat.revoked, revocation.epoch)
        seat.outbox.put(revocation)
        metrics.LEASES_REVOKED.labels(reason=reason).inc()
        log.info("lease_revoked", worker_id=seat.hello.worker_id, epoch=revocation.epoch, reason=reason)

    def _is_taken(self, seat: Seat) -> bool:
        return self._seats.get(seat.hello.worker_id) is seat

    def _set_down(self, seat: Seat, now_s: float) -> None:
        worker_id = seat.hello.worker_id
        last = self._known[worker_id].status if worker_id in self._known else WorkerStatus()
        down = replace(last, state=WorkerState.DOWN, running=0, epoch=Epoch(0), trainer_ready=False)
        self._known[worker_id] = Member(hello=seat.hello, status=down)
        self._ledger.enter(worker_id, WorkerState.DOWN, now_s)
