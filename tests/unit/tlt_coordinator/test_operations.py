"""What the coordinator does per event does not grow with its fleet: operations are counted, not timed."""

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from types import FrameType
from typing import TypeAlias

import pytest

from tests.unit.tlt_coordinator.scripted import BUSY, IDLE, Worker, running
from tlt_common.domain.fleet import Lease, Revocation, WorkerState
from tlt_coordinator.account.fleet_metrics import FleetMetrics
from tlt_coordinator.coordinator import TICK_S, Coordinator

pytestmark = pytest.mark.looptime

TraceFunction: TypeAlias = Callable[[FrameType, str, object], "TraceFunction | None"]

SMALL, LARGE = 100, 1000
SLACK = 1.1
"""A scan of the fleet takes ten times as many operations."""


class Operations:
    """Instructions of the interpreter, so that loops and comprehensions count by their length."""

    def __init__(self) -> None:
        self.count = 0

    def enter(self, frame: FrameType, _event: str, _argument: object) -> TraceFunction:
        frame.f_trace_lines, frame.f_trace_opcodes = False, True
        return self._note

    def _note(self, _frame: FrameType, event: str, _argument: object) -> TraceFunction:
        self.count += event == "opcode"
        return self._note


@contextmanager
def counted() -> Iterator[Operations]:
    operations, former = Operations(), sys.gettrace()
    sys.settrace(operations.enter)
    try:
        yield operations
    finally:
        sys.settrace(former)


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


async def operations_of_a_decision(workers: int) -> int:
    async with lent(workers) as (_, fleet):
        worker = fleet[workers // 2]
        with counted() as operations:
            worker.say(BUSY)
            order = await anext(worker.session.outbox.orders())
        assert isinstance(order, Revocation)
        return operations.count


async def operations_of_a_queue(workers: int) -> int:
    async with lent(workers) as (coordinator, fleet):
        with counted() as operations:
            coordinator.report_queue("gateway", 1)
            await anext(fleet[0].session.outbox.orders())
        return operations.count


async def operations_of_a_quiet_tick(workers: int) -> int:
    async with lent(workers):
        with counted() as operations:
            await asyncio.sleep(TICK_S)
        return operations.count


async def operations_of_reports_without_a_change(workers: int) -> int:
    async with lent(workers) as (_, fleet):
        with counted() as operations:
            for worker in fleet[:50]:
                worker.say()
                await asyncio.sleep(0)
        return operations.count


async def operations_of_a_part_of_an_export(workers: int) -> int:
    async with lent(workers) as (coordinator, _):
        exported = FleetMetrics()
        try:
            with counted() as operations:
                exported.export(coordinator.figures())
                for standing in coordinator.standings(0, 32)[1]:
                    exported.export_worker(standing)
        finally:
            exported.withdraw()
        return operations.count


@pytest.mark.parametrize(
    "operations_of",
    [
        operations_of_a_decision,
        operations_of_a_queue,
        operations_of_a_quiet_tick,
        operations_of_reports_without_a_change,
        operations_of_a_part_of_an_export,
    ],
)
async def test_an_event_costs_as_much_in_a_large_fleet_as_in_a_small_one(operations_of) -> None:  # type: ignore[no-untyped-def]
    small, large = await operations_of(SMALL), await operations_of(LARGE)
    assert small > 0
    assert large <= small * SLACK


async def test_a_report_that_changes_nothing_wakes_no_plan() -> None:
    async with lent(SMALL) as (_, fleet):
        worker = fleet[0]
        worker.say(replace(worker.status, training_steps=5))
        with counted() as unchanged:
            await asyncio.sleep(0)
        worker.say(BUSY)
        with counted() as changed:
            await asyncio.sleep(0)
        assert unchanged.count * 4 < changed.count
