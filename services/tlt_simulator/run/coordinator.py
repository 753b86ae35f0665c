"""The simulated coordinator: the product's registry, ledger, lender and announcer in virtual time."""

from collections.abc import Sequence
from math import inf

from tlt_common.domain.fleet import BUBBLES, DrafterWish, WorkerState
from tlt_common.domain.ids import DrafterVersion, Epoch
from tlt_coordinator.account.ledger import Ledger
from tlt_coordinator.config import LendingPolicy
from tlt_coordinator.drafters.announcer import Announcer
from tlt_coordinator.lender import Lender, LendingTerms
from tlt_coordinator.lending.orders import Grant
from tlt_coordinator.lending.worklist import STEP_WORKERS
from tlt_coordinator.queues import Queues
from tlt_coordinator.registry import Registry
from tlt_simulator.run.events import Events
from tlt_simulator.run.learning import Learning
from tlt_simulator.run.worker import SimWorker

GATEWAY = "gateway"
FOREVER_S = 1e12
"""Lifetime of leases: no worker is lost, so none would expire."""
EPOCHS = Epoch(2**62)
ROUNDING_S = 1e-6
"""Added to a time after which something is old enough, so that it is in spite of rounding."""


class SimCoordinator:
    """
    Args:
        workers: The fleet.
        learning: State that trainers report.
        events: Virtual time.
        policy: Lending policy.
        lending: Whether workers are lent at all.
    """

    def __init__(
        self,
        workers: Sequence[SimWorker],
        learning: Learning,
        events: Events,
        policy: LendingPolicy,
        *,
        lending: bool,
    ) -> None:
        self._workers = {worker.worker_id: worker for worker in workers}
        self._learning = learning
        self._events = events
        self._policy = policy.model_copy(update={"lease_ttl_s": FOREVER_S})
        self._lending = lending
        self._epoch = Epoch(0)
        self._queues = Queues(stale_s=inf)
        self._announcer = Announcer()
        self.ledger = Ledger()
        self._registry = Registry(self.ledger, events.now_s)
        self._lender = Lender(self._registry, self._queues)
        self._due = False
        for worker in workers:
            worker.session = self._registry.join(worker.hello, events.now_s)
            self.report(worker)

    @property
    def lending(self) -> bool:
        """Whether idle workers are lent."""
        return self._lending

    @property
    def trainers(self) -> int:
        """The workers that train."""
        return sum(worker.activity.state is WorkerState.TRAINING for worker in self._workers.values())

    def report(self, worker: SimWorker) -> None:
        """Record the state of a worker."""
        if worker.session is None:
            return
        learning = self._learning
        status = worker.status(gain=learning.gain_per_s, passes=learning.passes, resting=learning.resting)
        self._registry.report(worker.session, status, self._events.now_s)
        self.decide()
        if self._lending and status.state in BUBBLES:
            self._look_later()

    def report_all(self) -> None:
        """Record the states of all workers, because their trainers' reports have changed."""
        for worker in self._workers.values():
            self.report(worker)

    def queued(self, requests: int) -> None:
        """Record the number of queued requests."""
        self._queues.report(GATEWAY, requests, self._events.now_s)
        self.decide()

    def decide(self) -> None:
        """Decide after all events of the current time have been processed."""
        if not self._due:
            self._due = True
            self._events.after(0.0, self._decide)

    def publish(self) -> None:
        """Record a new drafter."""
        self._announcer.publish(DrafterWish(version=self._learning.version, uri="simulated"))

    def wish(self) -> DrafterVersion | None:
        """Return the drafter that all engines should load, or None if there is none."""
        if not self._announcer.holds:  # asked after every event
            return None
        found = self._announcer.due(
            self._events.now_s,
            every_s=self._registry.measures.publish_every_s,
            training=self._registry.loans > 0,
        )
        return found.version if found else None

    def _look_later(self) -> None:
        """Decide again when a free worker may be lent."""
        settle_s = self._registry.measures.settle_s(self._policy, self._events.now_s)
        if settle_s < inf:
            self._events.after(settle_s + ROUNDING_S, self.decide)

    def _decide(self) -> None:
        self._due = False
        now_s = self._events.now_s
        while True:
            terms = LendingTerms(
                enabled=self._lending,
                policy=self._policy,
                last_epoch=self._epoch,
                reserved_epoch=EPOCHS,
                drafter=self._learning.version,
            )
            changes = self._lender.step(now_s, terms)
            for change in changes:
                worker = self._workers[change.worker_id]
                if isinstance(change, Grant):
                    self._epoch = max(self._epoch, change.lease.epoch)
                    worker.offer(change.lease, resting=self._learning.resting)
                else:
                    worker.revoke(change.revocation)
                self.report(worker)
            if not self._registry.undecided and len(changes) < STEP_WORKERS:
                break
