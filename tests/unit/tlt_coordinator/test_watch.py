"""What gateways, pods and metrics are told of a fleet, in virtual time."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from tests.unit.tlt_coordinator.scripted import BUSY, IDLE, Worker, fleet_of, publication, running
from tlt_common.domain.fleet import (
    Lease,
    MembershipChange,
    Revocation,
    WorkerState,
)
from tlt_common.domain.ids import PolicyVersion
from tlt_coordinator.coordinator import COALESCE_S, TICK_S, Coordinator
from tlt_coordinator.lending.measures import UNKNOWN_SETTLE_S
from tlt_coordinator.lending.worklist import STEP_WORKERS

pytestmark = pytest.mark.looptime


async def watched(coordinator: Coordinator, until: Callable[[], Awaitable[None]]) -> list[MembershipChange]:
    seen: list[MembershipChange] = []

    async def watch() -> None:
        async for change in coordinator.watch():
            seen.append(change)  # noqa: PERF401 - the stream never ends

    async with asyncio.TaskGroup() as tasks:
        watching = tasks.create_task(watch())
        await asyncio.sleep(0)
        await until()
        watching.cancel()
    return seen


def named(change: MembershipChange) -> tuple[list[str], list[str]]:
    return [str(member.hello.worker_id) for member in change.joined], [str(worker_id) for worker_id in change.left]


async def test_gateways_see_the_fleet_at_once_and_then_who_joins_and_leaves() -> None:
    async with running() as coordinator:
        early = Worker.join(coordinator, "early", BUSY)

        async def change() -> None:
            late = Worker.join(coordinator, "late", BUSY)
            for worker in (early, late):
                await worker.live(1.0)
                worker.say(replace(BUSY, running=2))
            coordinator.leave(late.session)
            await early.live(1.0)

        changes = await watched(coordinator, change)
        assert [change.is_change for change in changes] == [False, True, True]
        assert [named(change) for change in changes] == [(["early"], []), (["late"], []), ([], ["late"])]


async def test_gateways_get_a_burst_of_changes_as_one() -> None:
    async with running() as coordinator:

        async def burst() -> None:
            for number in range(100):
                Worker.join(coordinator, f"w{number}", BUSY)
                await asyncio.sleep(COALESCE_S / 200)
            coordinator.leave(Worker.join(coordinator, "w100", BUSY).session)
            await asyncio.sleep(1.0)

        changes = await watched(coordinator, burst)
        assert len(changes) <= 4
        assert [name for change in changes for name in named(change)[0]] == [f"w{number}" for number in range(100)]


async def test_a_wave_of_leases_is_granted_in_parts_with_reports_in_between() -> None:
    async with running() as coordinator:
        workers = [Worker.join(coordinator, f"w{number}") for number in range(5 * STEP_WORKERS)]
        await asyncio.sleep(UNKNOWN_SETTLE_S + 2 * TICK_S)
        orders = [worker.session.outbox.take() for worker in workers]
        assert [order.epoch for order in orders if isinstance(order, Lease)] == list(range(1, len(workers) + 1))
        coordinator.report_queue("gateway", len(workers))
        for _ in range(20):
            await asyncio.sleep(0)
        assert all(isinstance(worker.session.outbox.take(), Revocation) for worker in workers)


async def test_the_figures_of_the_fleet_are_those_of_its_workers() -> None:
    async with running() as coordinator:
        worker = Worker.join(coordinator, status=replace(IDLE, policy_version=PolicyVersion(6)))
        await worker.live(10.0)
        wish = await coordinator.publish(publication(0))
        coordinator.report_queue("gateway", 2)
        figures, fleet = coordinator.figures(), (await fleet_of(coordinator))
        assert (figures.policy, figures.drafter, figures.queued) == (6, wish.version, 2)
        assert figures.bubble_utilisation == fleet.bubble_utilisation > 0
        following, (standing,) = coordinator.standings(0, 9)
        assert following == 0
        (account,) = fleet.workers
        assert standing.seconds == pytest.approx(
            {state: seconds - account.unsettled[state] for state, seconds in account.seconds.items()}
        )


async def test_changes_are_told_once_with_the_last_status() -> None:
    async with running() as coordinator:
        worker = Worker.join(coordinator, status=BUSY)
        seen, (member,) = coordinator.changed(0)
        assert member.status == BUSY
        worker.say(replace(BUSY, produced_tokens=5))
        assert coordinator.changed(seen) == (seen, [])
        coordinator.leave(worker.session)
        _, (member,) = coordinator.changed(seen)
        assert member.status.state is WorkerState.DOWN


async def test_gateways_are_told_whether_idle_workers_are_lent() -> None:
    async with running() as coordinator:
        Worker.join(coordinator, "one", BUSY)

        async def change() -> None:
            for enabled in (False, True, True):
                await asyncio.sleep(10 * COALESCE_S)
                coordinator.set_lending(enabled=enabled)
            await asyncio.sleep(10 * COALESCE_S)

        seen = await watched(coordinator, change)
    assert [one.lending for one in seen] == [True, False, True]
    assert [named(one) for one in seen[1:]] == [([], [])] * 2
