"""Workers of a coordinator in virtual time."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

from tlt_common.domain.fleet import (
    Fleet,
    Lease,
    Publication,
    Revocation,
    WorkerHello,
    WorkerState,
    WorkerStatus,
)
from tlt_common.domain.ids import DrafterVersion, Epoch, WorkerId
from tlt_coordinator.clock import Clock
from tlt_coordinator.config import CoordinatorConfig
from tlt_coordinator.coordinator import Coordinator
from tlt_coordinator.journal import NO_JOURNAL, CoordinatorJournal
from tlt_coordinator.outbox import Order
from tlt_coordinator.registry import WorkerSession
from tlt_coordinator.state import State, StateStore

IDLE = WorkerStatus(state=WorkerState.IDLE, trainer_ready=True)
BUSY = replace(IDLE, state=WorkerState.ROLLOUT, running=1)
CONFIG = CoordinatorConfig()


@asynccontextmanager
async def running(
    config: CoordinatorConfig = CONFIG, store: StateStore | None = None, journal: CoordinatorJournal = NO_JOURNAL
) -> AsyncIterator[Coordinator]:
    coordinator = Coordinator(config, store or StateStore(State(), None), Clock(), journal)
    async with asyncio.TaskGroup() as tasks:
        plan = tasks.create_task(coordinator.run())
        yield coordinator
        plan.cancel()


async def fleet_of(coordinator: Coordinator, *, max_changes: int = 0) -> Fleet:
    workers = [account async for part in coordinator.observer.accounts(max_changes) for account in part]
    return replace(coordinator.observer.summary(), workers=tuple(workers))


@dataclass
class Worker:
    """Reports every second, as real workers do, and does what it is told at once."""

    coordinator: Coordinator
    session: WorkerSession
    status: WorkerStatus = IDLE

    @classmethod
    def join(cls, coordinator: Coordinator, name: str = "w0", status: WorkerStatus = IDLE) -> "Worker":
        hello = WorkerHello(worker_id=WorkerId(name), address="host:1", model="m", device="cpu", max_running=8)
        worker = cls(coordinator, coordinator.join(hello), status)
        worker.say()
        return worker

    def say(self, status: WorkerStatus | None = None) -> None:
        self.status = status or self.status
        self.coordinator.report(self.session, self.status)

    async def live(self, seconds: float, *, report_every_s: float = 0.1) -> list[Order]:
        """Obey for so long, report every change at once and otherwise this often; return the orders."""
        orders: list[Order] = []
        for tick in range(round(seconds * 10)):
            await asyncio.sleep(0.1)
            before = self.status
            while (order := self.session.outbox.take()) is not None:
                orders.append(order)
                self._obey(order)
            changed = self.status is not before
            if self.status.lent:  # the device computes half of the time
                self.status = replace(self.status, training_s=self.status.training_s + 0.05)
            if changed or (tick + 1) % round(report_every_s * 10) == 0:
                self.say()
        return orders

    def _obey(self, order: Order) -> None:
        if isinstance(order, Lease) and order.epoch != self.status.epoch:
            self.status = replace(self.status, state=WorkerState.TRAINING, epoch=order.epoch, lent=True)
        elif isinstance(order, Revocation) and order.epoch == self.status.epoch:
            self.status = replace(self.status, state=WorkerState.IDLE, epoch=Epoch(0), lent=False)


def publication(base: int) -> Publication:
    return Publication(
        base=DrafterVersion(base), uri=f"file:///{base + 1}", worker_id=WorkerId("w0"), held_out_top1=0.5
    )
