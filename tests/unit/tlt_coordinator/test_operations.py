"""What the coordinator does per event does not grow with its fleet: calls are counted, not timed."""

import asyncio
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from types import FrameType

import pytest

from tests.unit.tlt_coordinator.scripted import BUSY, IDLE, Worker, running
from tlt_common.domain.fleet import Lease, Revocation, WorkerState
from tlt_coordinator.coordinator import TICK_S, Coordinator
from tlt_coordinator.fleet_metrics import FleetMetrics

pytestmark = pytest.mark.looptime

SMALL, LARGE = 100, 1000
SLACK = 1.1
"""A scan of the fleet would make ten times as many calls."""


class Calls:
    """Calls of functions, those written in C included."""

    def __init__(self) -> None:
        self.count = 0

    def note(self, _frame: FrameType, event: str, _argument: object) -> None:
        self.count += event in {"call", "c_call"}


@contextmanager
def counted() -> Iterator[Calls]:
    calls, former = Calls(), sys.getprofile()
    sys.setprofile(calls.note)
    try:
        yield calls
    finally:
        sys.setprofile(former)


@asynccontextmanager
async def lent(workers: int) -> AsyncIterator[tuple[Coordinator, list[Worker]]]:
    """Run a coordinator that has lent all of its workers."""
    async with running() as coordinator:
        fleet = [Worker.join(coordinator, f"w{number}") for number in range(workers)]
        await asyncio.sleep(0.5)
        for worker in fleet:
            order = worker.session.outbox.take()
            assert isinstance(order, Lease)
            worker.say(replace(IDLE, state=WorkerState.TRAINING, epoch=order.epoch, lent=True))
        for _ in range(workers):
            await asyncio.sleep(0)
        yield coordinator, fleet


async def calls_of_a_decision(workers: int) -> int:
    async with lent(workers) as (_, fleet):
        worker = fleet[workers // 2]
        with counted() as calls:
            worker.say(BUSY)
            order = await anext(worker.session.outbox.orders())
        assert isinstance(order, Revocation)
        return calls.count


async def calls_of_a_queue(workers: int) -> int:
    async with lent(workers) as (coordinator, fleet):
        with counted() as calls:
            coordinator.report_queue("gateway", 1)
            await anext(fleet[0].session.outbox.orders())
        return calls.count


async def calls_of_a_quiet_tick(workers: int) -> int:
    async with lent(workers):
        with counted() as calls:
            await asyncio.sleep(TICK_S)
        return calls.count


async def calls_of_reports_without_a_change(workers: int) -> int:
    async with lent(workers) as (_, fleet):
        with counted() as calls:
            for worker in fleet[:50]:
                worker.say()
                await asyncio.sleep(0)
        return calls.count


async def calls_of_a_part_of_an_export(workers: int) -> int:
    async with lent(workers) as (coordinator, _):
        exported = FleetMetrics()
        try:
            with counted() as calls:
                exported.export(coordinator.figures())
                for standing in coordinator.standings(0, 32)[1]:
                    exported.export_worker(standing)
        finally:
            exported.withdraw()
        return calls.count


@pytest.mark.parametrize(
    "calls_of",
    [
        calls_of_a_decision,
        calls_of_a_queue,
        calls_of_a_quiet_tick,
        calls_of_reports_without_a_change,
        calls_of_a_part_of_an_export,
    ],
)
async def test_an_event_costs_as_many_calls_in_a_large_fleet_as_in_a_small_one(calls_of) -> None:  # type: ignore[no-untyped-def]
    small, large = await calls_of(SMALL), await calls_of(LARGE)
    assert small > 0
    assert large <= small * SLACK


async def test_a_report_that_changes_nothing_wakes_no_plan() -> None:
    async with lent(SMALL) as (_, fleet):
        worker = fleet[0]
        with counted() as idle:
            await asyncio.sleep(0)
        with counted() as reported:
            worker.say(replace(worker.status, training_steps=5))
        with counted() as after:
            await asyncio.sleep(0)
        assert reported.count > 0
        assert after.count == idle.count
