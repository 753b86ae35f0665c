"""Workers in the coordinator's process: they call it as its servicer does, without a connection."""

import asyncio
import random
import time
from collections.abc import Iterator
from contextlib import aclosing
from dataclasses import replace
from typing import Never

from tlt_bench.control.fleet import REPORT_EVERY_S
from tlt_common.domain.fleet import Lease, Revocation, WorkerHello, WorkerState, WorkerStatus
from tlt_common.domain.ids import Epoch, WorkerId
from tlt_coordinator.coordinator import Coordinator
from tlt_coordinator.outbox import Order

IDLE = WorkerStatus(state=WorkerState.IDLE, trainer_ready=True)
TURNS = 100
"""Parts of a second in which direct workers report, evenly spread."""


def hello(name: str) -> WorkerHello:
    """Identify a simulated worker."""
    return WorkerHello(worker_id=WorkerId(name), address=f"{name}:50051", model="m", device="simulated", max_running=32)


def obeyed(status: WorkerStatus, order: Order) -> WorkerStatus:
    """Return the status of a worker after an order."""
    match order:
        case Lease(epoch=epoch):
            return replace(status, state=WorkerState.TRAINING, epoch=epoch, lent=True)
        case Revocation(epoch=epoch) if epoch >= status.epoch:
            return replace(status, state=WorkerState.IDLE, epoch=Epoch(0), lent=False)
    return status


async def run_crowd(coordinator: Coordinator, count: int) -> Never:
    """Let workers report every second, and take the leases they get."""
    sessions = [coordinator.join(hello(f"direct-{number}")) for number in range(count)]
    statuses = [IDLE] * count
    loop = asyncio.get_running_loop()
    due_s = loop.time()
    while True:
        for turn in range(TURNS):
            for number in range(turn, count, TURNS):
                session = sessions[number]
                while (order := session.outbox.take()) is not None:
                    statuses[number] = obeyed(statuses[number], order)
                coordinator.report(session, statuses[number])
            due_s += REPORT_EVERY_S / TURNS
            await asyncio.sleep(max(0.0, due_s - loop.time()))


class Probe:
    """A worker that takes its device back a second or so after each lease, and times the revocation that follows."""

    def __init__(self, coordinator: Coordinator, number: int) -> None:
        self._coordinator = coordinator
        self._session = coordinator.join(hello(f"probe-{number}"))
        self._random = random.Random(number)
        self._status = IDLE
        self._asked_s: float | None = None
        self.decisions_ms: list[float] = []

    async def run(self) -> Never:
        """Live until cancelled."""
        async with asyncio.TaskGroup() as parts:
            parts.create_task(self._report())
            async with aclosing(self._session.outbox.orders()) as orders:  # type: ignore[type-var]
                async for order in orders:
                    self._obey(order)
        raise AssertionError("the stream never ends")

    async def _report(self) -> Never:
        while True:
            self._coordinator.report(self._session, self._status)
            await asyncio.sleep(self._random.uniform(0.5, 1.0) * REPORT_EVERY_S)
            if self._status.epoch:
                self._take_back()
                await asyncio.sleep(0.2)

    def _take_back(self) -> None:
        self._status = replace(IDLE, state=WorkerState.ROLLOUT, running=1)
        self._asked_s = time.perf_counter()
        self._coordinator.report(self._session, self._status)

    def _obey(self, order: Order) -> None:
        if isinstance(order, Revocation):
            if self._asked_s is not None:
                self.decisions_ms.append((time.perf_counter() - self._asked_s) * 1e3)
            self._asked_s, self._status = None, IDLE
        elif self._asked_s is None:
            self._status = obeyed(self._status, order)


def probes(coordinator: Coordinator, count: int) -> Iterator[Probe]:
    """Return this many probes."""
    return (Probe(coordinator, number) for number in range(count))
