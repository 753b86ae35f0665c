"""Time is virtual: a second passes at once when nothing else is to do."""

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import replace

import pytest

from tlt_common.domain.fleet import WatchDemand, WatchReport, WorkerInfo
from tlt_common.domain.ids import DrafterVersion, PolicyVersion, WorkerId
from tlt_worker.requests.watchers import HEARTBEAT_S, Watchers

pytestmark = pytest.mark.looptime


class Reporting:
    """A worker's state, and the gateways that watch it."""

    def __init__(self) -> None:
        self.info = WorkerInfo(
            worker_id=WorkerId("w0"),
            model="m",
            vocab_size=10,
            context_length=10,
            max_running=8,
            policy_version=PolicyVersion(0),
            drafter_version=DrafterVersion(0),
            running=0,
            device="cpu",
        )
        self.watchers = Watchers(lambda: self.info)


class Gateway:
    def __init__(self, reporting: Reporting, name: str = "g") -> None:
        self._name = name
        self._demands: asyncio.Queue[WatchDemand] = asyncio.Queue()
        self._serial = 0
        self.reports = reporting.watchers.watch(self._sent())

    def demand(self, demand: int) -> None:
        self._serial += 1
        self._demands.put_nowait(WatchDemand(gateway_id=self._name, demand=demand, serial=self._serial))

    async def told(self) -> WatchReport:
        return await anext(self.reports)

    async def _sent(self) -> AsyncGenerator[WatchDemand, None]:
        while True:
            yield await self._demands.get()


@pytest.fixture
def reporting() -> Reporting:
    return Reporting()


def now_s() -> float:
    return asyncio.get_running_loop().time()


async def test_a_gateway_is_told_at_once_at_every_change_and_every_second(reporting: Reporting) -> None:
    gateway = Gateway(reporting)
    started_s = now_s()
    assert (await gateway.told()).slots == 8
    assert now_s() == started_s
    await gateway.told()
    assert now_s() - started_s == HEARTBEAT_S
    reporting.info = replace(reporting.info, policy_version=PolicyVersion(1))
    reporting.watchers.changed()
    assert (await gateway.told()).info.policy_version == 1
    assert now_s() - started_s == HEARTBEAT_S
    await gateway.reports.aclose()


async def test_every_demand_is_answered_with_its_serial(reporting: Reporting) -> None:
    gateway = Gateway(reporting)
    assert (await gateway.told()).serial == 0
    started_s = now_s()
    for serial in (1, 2, 3):
        gateway.demand(0)
        assert (await gateway.told()).serial == serial
    assert now_s() == started_s
    await gateway.reports.aclose()


async def test_gateways_share_the_slots_and_get_those_of_one_that_leaves(reporting: Reporting) -> None:
    first, second = Gateway(reporting, "a"), Gateway(reporting, "b")
    await first.told()
    first.demand(100)
    assert (await first.told()).slots == 8
    await second.told()
    second.demand(3)
    while (await second.told()).slots != 3:
        pass
    while (await first.told()).slots != 5:
        pass
    await second.reports.aclose()
    while (await first.told()).slots != 8:
        pass
    await first.reports.aclose()


async def test_the_number_of_running_requests_alone_is_told_a_few_times_a_second(reporting: Reporting) -> None:
    gateway = Gateway(reporting)
    await gateway.told()
    started_s, messages = now_s(), 0

    async def load() -> None:
        for running in range(10_000):
            reporting.info = replace(reporting.info, running=running)
            reporting.watchers.changed()
            await asyncio.sleep(0.0001)

    async with asyncio.TaskGroup() as group:
        loading = group.create_task(load())
        while not loading.done():
            await gateway.told()
            messages += 1
    assert messages / (now_s() - started_s) < 6
    await gateway.reports.aclose()


async def test_closing_ends_every_watch(reporting: Reporting) -> None:
    gateway = Gateway(reporting)
    await gateway.told()
    reporting.watchers.close()
    assert [report async for report in gateway.reports] == []
