"""How often a worker reports, in virtual time."""

import asyncio
from itertools import pairwise

import pytest

from tlt_common.domain.fleet import DrafterWish, Lease, ReportInterval, Revocation, WorkerHello, WorkerStatus
from tlt_common.domain.ids import Epoch, WorkerId
from tlt_common.wire import coordinator as wire
from tlt_worker.lending.coordinator_stream import STATUS_EVERY_S, CoordinatorStream

pytestmark = pytest.mark.looptime

HELLO = WorkerHello(worker_id=WorkerId("w0"), address="w0:1", model="m", device="cpu", max_running=8)


class Bench:
    def __init__(self) -> None:
        self.obeyed: list[Lease | Revocation | DrafterWish] = []
        self.stream = CoordinatorStream("nowhere:1", lambda: HELLO, status=WorkerStatus, obey=self.obeyed.append)

    def tell(self, order: Lease | ReportInterval) -> None:
        self.stream._receive(wire.order_to_pb(order))

    async def intervals_s(self, count: int) -> list[float]:
        """Open a stream; return the times between its first reports, of which the second follows at once."""
        clock, times = asyncio.get_running_loop(), []
        async for _ in self.stream._reports():
            times.append(clock.time())
            if len(times) == 2:
                self.told_after_the_first_status()
            if len(times) == count + 2:
                break
        return [round(later - earlier, 6) for earlier, later in pairwise(times[1:])]

    def told_after_the_first_status(self) -> None: ...


async def test_the_hello_says_that_an_interval_is_understood() -> None:
    hello = await anext(aiter(Bench().stream._reports()))
    assert hello.hello.accepts_report_interval


async def test_a_worker_reports_at_the_interval_it_was_told_until_the_stream_ends() -> None:
    bench = Bench()
    assert await bench.intervals_s(2) == [STATUS_EVERY_S] * 2
    bench.told_after_the_first_status = lambda: bench.tell(ReportInterval(seconds=5.0))  # type: ignore[method-assign]
    assert await bench.intervals_s(3) == [5.0] * 3
    bench.told_after_the_first_status = lambda: None  # type: ignore[method-assign]
    assert await bench.intervals_s(1) == [STATUS_EVERY_S]
    assert bench.obeyed == []


async def test_a_change_is_reported_at_once_at_any_interval() -> None:
    bench = Bench()

    def told() -> None:
        bench.tell(ReportInterval(seconds=60.0))
        asyncio.get_running_loop().call_later(0.25, bench.stream.poke)

    bench.told_after_the_first_status = told  # type: ignore[method-assign]
    assert await bench.intervals_s(1) == [0.25]


async def test_every_other_order_is_obeyed() -> None:
    bench = Bench()
    bench.tell(Lease(epoch=Epoch(3), ttl_s=5.0))
    assert bench.obeyed == [Lease(epoch=Epoch(3), ttl_s=5.0)]
