"""Registry and plan against workers that behave as real ones, messages delayed at will in both directions."""

from collections import deque
from collections.abc import Iterator
from dataclasses import replace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tlt_common.domain.fleet import Lease, Revocation, WorkerHello, WorkerState, WorkerStatus
from tlt_common.domain.ids import Epoch, WorkerId
from tlt_coordinator.account.ledger import Ledger
from tlt_coordinator.config import LendingPolicy
from tlt_coordinator.lending.orders import FleetView, Grant, orders
from tlt_coordinator.outbox import Order
from tlt_coordinator.registry import Registry, WorkerSession

POLICY = LendingPolicy(settle_s=0.3, lease_ttl_s=5.0)
WORKERS = 3
workers = st.integers(0, WORKERS - 1)


class ScriptedWorker:
    """Takes leases when it is free, and takes its device back by itself."""

    def __init__(self, number: int) -> None:
        self.worker_id = WorkerId(f"w{number}")
        self.running = 0
        self.lease: Lease | None = None
        self.expires_at_s = 0.0
        self.ended = Epoch(0)
        self.epochs: list[Epoch] = []
        self.reports: deque[WorkerStatus] = deque()
        self.say()

    def obey(self, order: Order, now_s: float) -> None:
        match order:
            case Lease(epoch=epoch) if epoch <= self.ended or (self.lease and epoch < self.lease.epoch):
                return
            case Lease(epoch=epoch) if self.running:
                self.ended = epoch
            case Lease(epoch=epoch):
                if self.lease is None or self.lease.epoch != epoch:
                    self.epochs.append(epoch)
                self.lease, self.expires_at_s = order, now_s + order.ttl_s
            case Revocation(epoch=epoch):
                self.ended = max(self.ended, epoch)
                if self.lease and self.lease.epoch <= epoch:
                    self.lease = None
        self.say()

    def serve(self, running: int) -> None:
        self.running = running
        if running:
            self.drop_lease()
        self.say()

    def drop_lease(self) -> None:
        if self.lease:
            self.ended, self.lease = self.lease.epoch, None

    def live_on(self, now_s: float) -> None:
        if self.lease and now_s >= self.expires_at_s:
            self.drop_lease()
            self.say()

    def say(self) -> None:
        state = WorkerState.ROLLOUT if self.running else WorkerState.TRAINING if self.lease else WorkerState.IDLE
        epoch = self.lease.epoch if self.lease else Epoch(0)
        self.reports.append(WorkerStatus(state=state, running=self.running, epoch=epoch, trainer_ready=True))


class Lending(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.now_s = 1000.0
        self.queued = 0
        self.last_epoch = Epoch(0)
        self.workers = [ScriptedWorker(number) for number in range(WORKERS)]
        self.registry = Registry(Ledger(), self.now_s)
        self.sessions: list[WorkerSession] = []

    @initialize()
    def all_join(self) -> None:
        self.sessions = [self._join(worker) for worker in self.workers]

    @rule(number=workers)
    def one_reconnects(self, number: int) -> None:
        self.sessions[number] = self._join(self.workers[number])

    @rule()
    def the_coordinator_restarts_with_its_epochs(self) -> None:
        self.registry = Registry(Ledger(), self.now_s)
        self.all_join()

    @rule(number=workers, running=st.integers(0, 2))
    def requests_come_and_go(self, number: int, running: int) -> None:
        self.workers[number].serve(running)

    @rule(queued=st.integers(0, 1))
    def the_queue_changes(self, queued: int) -> None:
        self.queued = queued
        self._plan()

    @rule(number=workers)
    def a_report_arrives(self, number: int) -> None:
        if self.workers[number].reports:
            self.registry.report(self.sessions[number], self.workers[number].reports.popleft(), self.now_s)
            self._plan()

    @rule(number=workers)
    def an_order_arrives(self, number: int) -> None:
        if (order := self.sessions[number].outbox.take()) is not None:
            self.workers[number].obey(order, self.now_s)

    @rule(passed_s=st.sampled_from([0.1, 0.4, 2.0, 6.0]))
    def time_passes(self, passed_s: float) -> None:
        self.now_s += passed_s
        for worker in self.workers:
            worker.live_on(self.now_s)
        self._plan()

    @rule()
    def everything_is_delivered(self) -> None:
        for _ in range(20):
            for number in range(WORKERS):
                self.a_report_arrives(number)
                self.an_order_arrives(number)
        for worker, loan in zip(self.workers, self._loans(), strict=True):
            assert (worker.lease.epoch if worker.lease else None) == loan
            assert not (worker.lease and self.queued), "requests wait while a worker trains"

    @invariant()
    def no_busy_worker_trains(self) -> None:
        assert not any(worker.running and worker.lease for worker in self.workers)

    @invariant()
    def the_epochs_a_worker_took_only_go_up(self) -> None:
        for worker in self.workers:
            assert worker.epochs == sorted(set(worker.epochs))

    @invariant()
    def no_two_workers_ever_had_the_same_epoch(self) -> None:
        taken = [epoch for worker in self.workers for epoch in worker.epochs]
        assert len(taken) == len(set(taken))

    def _join(self, worker: ScriptedWorker) -> WorkerSession:
        hello = WorkerHello(worker_id=worker.worker_id, address="host:1", model="m", device="cpu", max_running=8)
        worker.reports.clear()
        worker.say()
        return self.registry.join(hello, self.now_s)

    def _loans(self) -> Iterator[Epoch | None]:
        return (session.loan.epoch if session.loan else None for session in self.sessions)

    def _plan(self) -> None:
        while True:
            recalled = self.registry.least(WORKERS if self.queued else 0)
            fleet = FleetView(
                workers=self.registry.to_decide(self.now_s, POLICY, ends=False, also=recalled),
                settled=self.registry.settled(self.now_s, POLICY),
                recalled=frozenset(worker.worker_id for worker in recalled),
                queued=self.queued,
                lending=True,
                last_epoch=self.last_epoch,
                reserved_epoch=Epoch(self.last_epoch + 9),
            )
            changes = orders(fleet, self.now_s, POLICY)
            self.registry.carry_out(changes, self.now_s)
            granted = [change.lease.epoch for change in changes if isinstance(change, Grant)]
            self.last_epoch = max([self.last_epoch, *granted])
            if not changes and not self.registry.undecided:
                break
        views = tuple(view for session in self.sessions if (view := session.view) is not None)
        left_out = orders(replace(fleet, workers=views, settled=()), self.now_s, POLICY)
        assert not left_out, "a worker that the plan did not look at needed a decision"


TestLending = Lending.TestCase
TestLending.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)
