"""Simulated workers that take leases and report over their own gRPC streams, like the product's workers."""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Never, TypeAlias

from tlt_bench.control.fleet import REPORT_EVERY_S
from tlt_common.domain.fleet import (
    DrafterWish,
    Lease,
    ReportInterval,
    Revocation,
    WorkerHello,
    WorkerState,
    WorkerStatus,
)
from tlt_common.domain.ids import Epoch, WorkerId
from tlt_common.rpc.follow import follow
from tlt_common.wire import coordinator as wire

IDLE = WorkerStatus(state=WorkerState.IDLE, trainer_ready=True)
Order: TypeAlias = Lease | Revocation | DrafterWish | ReportInterval
COMPUTING = 0.5
"""Share of a lease that the device computes."""


def hello(name: str) -> WorkerHello:
    """Identify a simulated worker."""
    return WorkerHello(
        worker_id=WorkerId(name),
        address=f"{name}:50051",
        model="m",
        device="simulated",
        max_running=32,
        accepts_report_interval=True,
    )


def _nothing() -> None: ...


class SimulatedWorker:
    """A worker that is idle, or trains while it holds a lease."""

    def __init__(self, stub: wire.AsyncStub, name: str) -> None:
        self._stub = stub
        self._hello = hello(name)
        self.status = IDLE
        self._reported_s = 0.0
        self._report_every_s = REPORT_EVERY_S
        self._changed = asyncio.Event()
        self._joined: Callable[[], None] = _nothing

    async def run(self, joined: Callable[[], None]) -> Never:
        """Run until cancelled, reconnecting like a worker. `joined` is called after the first order."""
        self._joined = joined
        await follow("coordinator", lambda: self._stub.HoldLease(self._reports()), self._receive)
        raise AssertionError("the stream never ends")

    def become(self, status: WorkerStatus) -> None:
        """Change the status, and report it now."""
        self.status = status
        self._changed.set()

    def obey(self, order: Order) -> None:
        """Take or return a lease."""
        match order:
            case ReportInterval(seconds=seconds):
                self._report_every_s = seconds
            case Lease(epoch=epoch) if epoch > self.status.epoch:
                self.become(replace(self.status, state=WorkerState.TRAINING, epoch=epoch, lent=True))
            case Revocation(epoch=epoch) if epoch >= self.status.epoch:
                self.become(replace(self.status, state=WorkerState.IDLE, epoch=Epoch(0), lent=False, running=0))

    def _receive(self, message: wire.pb.HoldLeaseResponse) -> None:
        self._joined()
        self._joined = _nothing
        self.obey(wire.order_from_pb(message))

    async def _reports(self) -> AsyncIterator[wire.pb.HoldLeaseRequest]:
        loop = asyncio.get_running_loop()
        self._report_every_s = REPORT_EVERY_S
        yield wire.report_to_pb(self._hello)
        while True:
            self._changed.clear()
            now_s = loop.time()
            if self.status.lent:
                computed_s = COMPUTING * (now_s - self._reported_s)
                self.status = replace(self.status, training_s=self.status.training_s + computed_s)
            self._reported_s = now_s
            yield wire.report_to_pb(self.status)
            next_report = loop.call_later(self._report_every_s, self._changed.set)
            await self._changed.wait()
            next_report.cancel()


class Probe(SimulatedWorker):
    """A worker that takes its device back about a second after each lease, and times the following revocation."""

    def __init__(self, stub: wire.AsyncStub, name: str) -> None:
        super().__init__(stub, name)
        self._random = random.Random(name)
        self._asked_s: float | None = None
        self.roundtrips_ms: list[float] = []

    def obey(self, order: Order) -> None:
        """Take a lease for about a second, or return it."""
        if isinstance(order, Revocation):
            if self._asked_s is not None:
                self.roundtrips_ms.append((time.perf_counter() - self._asked_s) * 1e3)
            self._asked_s = None
            super().obey(Revocation(epoch=max(order.epoch, self.status.epoch)))
        elif not isinstance(order, Lease):
            super().obey(order)
        elif self._asked_s is None and order.epoch > self.status.epoch:
            super().obey(order)
            asyncio.get_running_loop().call_later(self._random.uniform(0.5, 1.0), self._take_back, order.epoch)

    def _take_back(self, epoch: Epoch) -> None:
        if self.status.epoch == epoch:
            self._asked_s = time.perf_counter()
            self.become(replace(self.status, state=WorkerState.ROLLOUT, running=1, epoch=Epoch(0), lent=False))
