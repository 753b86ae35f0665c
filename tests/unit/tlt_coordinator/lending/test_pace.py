"""How much a fleet says and is told while nothing changes, by its size."""

import pytest

from tests.unit.tlt_coordinator.scripted import BUSY, Worker, running
from tlt_common.domain.fleet import Lease, ReportInterval, WorkerHello
from tlt_common.domain.ids import WorkerId
from tlt_coordinator.config import LendingPolicy
from tlt_coordinator.lending.pace import FASTEST_S, REPORTS_PER_S, Pace

POLICY = LendingPolicy(lease_ttl_s=5.0)


@pytest.mark.parametrize(
    ("workers", "every_s", "ttl_s"), [(1, 1.0, 5.0), (REPORTS_PER_S, 1.0, 5.0), (5 * REPORTS_PER_S, 5.0, 15.0)]
)
def test_reports_and_renewals_stay_below_a_rate_at_any_size(workers: int, every_s: float, ttl_s: float) -> None:
    pace = Pace(POLICY)
    pace.fit(workers)
    assert pace.report_every_s == every_s
    assert pace.policy.lease_ttl_s == ttl_s
    assert workers / pace.report_every_s <= REPORTS_PER_S
    assert pace.silence_s(5.0) - pace.report_every_s == 5.0 - FASTEST_S


def test_a_fleet_that_shrank_keeps_its_pace() -> None:
    pace = Pace(POLICY)
    pace.fit(3 * REPORTS_PER_S)
    pace.fit(1)
    assert pace.report_every_s == 3.0


def hello(number: int, *, accepts: bool) -> WorkerHello:
    name = WorkerId(f"w{number}")
    return WorkerHello(
        worker_id=name, address="host:1", model="m", device="cpu", max_running=8, accepts_report_interval=accepts
    )


@pytest.mark.looptime
@pytest.mark.parametrize("accepts", [True, False])
async def test_a_worker_is_told_the_interval_once_if_it_understands_it(accepts: bool) -> None:
    async with running() as coordinator:
        session = coordinator.join(hello(0, accepts=accepts))
        for number in range(1, REPORTS_PER_S + 1):
            coordinator.join(hello(number, accepts=accepts))
        for _ in range(3):
            coordinator.report(session, BUSY)
        orders = [session.outbox.take() for _ in range(2)]
        assert orders == [ReportInterval(seconds=2.0) if accepts else None, None]


@pytest.mark.looptime
async def test_a_worker_of_a_large_fleet_keeps_its_lease_and_is_not_silent_at_its_interval() -> None:
    async with running() as coordinator:
        worker = Worker.join(coordinator)
        others = [coordinator.join(hello(number, accepts=True)) for number in range(1, 5 * REPORTS_PER_S)]
        for other in others:
            coordinator.leave(other)
        (lease, *_) = [order for order in await worker.live(1.0) if isinstance(order, Lease)]
        renewals = [order for _ in range(10) for order in await worker.live(5.0, report_every_s=5.0)]
        assert lease.ttl_s == 15.0
        assert renewals == [lease] * len(renewals)
        assert len(renewals) == pytest.approx(10, abs=1)
