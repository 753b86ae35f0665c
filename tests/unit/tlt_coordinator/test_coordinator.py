"""The coordinator in virtual time, its workers scripted."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tlt_common.domain.fleet import DrafterWish, Lease, Member, Revocation, WorkerHello, WorkerState, WorkerStatus
from tlt_common.domain.ids import DrafterVersion, Epoch, WorkerId
from tlt_common.errors import AbortedError, InvalidRequestError, UnavailableError
from tlt_coordinator.clock import Clock
from tlt_coordinator.config import CoordinatorConfig
from tlt_coordinator.coordinator import COALESCE_S, TICK_S, Coordinator
from tlt_coordinator.drafters import Publication
from tlt_coordinator.outbox import Order
from tlt_coordinator.registry import Seat
from tlt_coordinator.state import State, Store

pytestmark = pytest.mark.looptime

IDLE = WorkerStatus(state=WorkerState.IDLE, trainer_ready=True)
BUSY = replace(IDLE, state=WorkerState.ROLLOUT, running=1)
CONFIG = CoordinatorConfig()


@asynccontextmanager
async def running(config: CoordinatorConfig = CONFIG, store: Store | None = None) -> AsyncIterator[Coordinator]:
    coordinator = Coordinator(config, store or Store(State(), None), Clock())
    async with asyncio.TaskGroup() as tasks:
        plan = tasks.create_task(coordinator.run())
        yield coordinator
        plan.cancel()


@dataclass
class Worker:
    """Reports every second, as real workers do, and does what it is told at once."""

    coordinator: Coordinator
    seat: Seat
    status: WorkerStatus = IDLE

    @classmethod
    def join(cls, coordinator: Coordinator, name: str = "w0", status: WorkerStatus = IDLE) -> "Worker":
        hello = WorkerHello(worker_id=WorkerId(name), address="host:1", model="m", device="cpu", max_running=8)
        worker = cls(coordinator, coordinator.join(hello), status)
        worker.say()
        return worker

    def say(self, status: WorkerStatus | None = None) -> None:
        self.status = status or self.status
        self.coordinator.report(self.seat, self.status)

    async def live(self, seconds: float) -> list[Order]:
        """Report and obey for so long; return the orders."""
        orders: list[Order] = []
        for _ in range(round(seconds * 10)):
            await asyncio.sleep(0.1)
            while (order := self.seat.outbox.take()) is not None:
                orders.append(order)
                self._obey(order)
            self.say()
        return orders

    def _obey(self, order: Order) -> None:
        if isinstance(order, Lease):
            self.status = replace(self.status, state=WorkerState.TRAINING, epoch=order.epoch)
        elif isinstance(order, Revocation) and order.epoch == self.status.epoch:
            self.status = replace(self.status, state=WorkerState.IDLE, epoch=Epoch(0))


def publication(base: int) -> Publication:
    return Publication(
        base=DrafterVersion(base), uri=f"file:///{base + 1}", worker_id=WorkerId("w0"), held_out_top1=0.5
    )


async def test_an_idle_worker_is_lent_once_it_has_settled() -> None:
    async with running() as coordinator:
        worker = Worker.join(coordinator)
        assert await worker.live(CONFIG.spot.settle_s - TICK_S) == []
        (lease,) = await worker.live(3 * TICK_S)
        assert lease == Lease(epoch=Epoch(1), ttl_s=CONFIG.spot.lease_ttl_s)


async def test_a_lease_is_renewed_in_time_for_as_long_as_nothing_comes() -> None:
    async with running() as coordinator:
        orders = await Worker.join(coordinator).live(60.0)
        assert set(orders) == {Lease(epoch=Epoch(1), ttl_s=5.0)}
        assert len(orders) == pytest.approx(60.0 / (5.0 / 3), abs=3)


async def test_waiting_requests_end_all_leases_at_once_and_for_as_long_as_they_wait() -> None:
    async with running() as coordinator:
        workers = [Worker.join(coordinator, name) for name in ("w0", "w1")]
        await asyncio.gather(*(worker.live(1.0) for worker in workers))
        coordinator.report_queue("gateway", 3)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert [type(worker.seat.outbox.take()) for worker in workers] == [Revocation, Revocation]
        for _ in range(3):
            assert [order for worker in workers for order in await worker.live(1.0) if isinstance(order, Lease)] == []
            coordinator.report_queue("gateway", 3)


async def test_a_gateway_that_died_with_a_full_queue_does_not_stop_lending_for_ever() -> None:
    async with running() as coordinator:
        worker = Worker.join(coordinator)
        coordinator.report_queue("gateway", 3)
        assert await worker.live(CONFIG.queue_stale_s - 0.2) == []
        assert isinstance((await worker.live(0.5))[0], Lease)


async def test_a_worker_that_took_its_device_back_is_lent_again_under_a_higher_epoch() -> None:
    async with running() as coordinator:
        worker = Worker.join(coordinator)
        await worker.live(1.0)
        worker.say(BUSY)
        assert await worker.live(10.0) == [Revocation(epoch=Epoch(1))]
        worker.say(IDLE)
        assert (await worker.live(1.0))[0] == Lease(epoch=Epoch(2), ttl_s=5.0)


async def test_a_silent_worker_is_down_after_the_silence_it_is_allowed() -> None:
    async with running() as coordinator:
        worker = Worker.join(coordinator)
        await worker.live(1.0)
        await asyncio.sleep(CONFIG.silence_s - TICK_S)
        assert coordinator.fleet().workers[0].status.state is WorkerState.TRAINING
        await asyncio.sleep(2 * TICK_S)
        assert coordinator.fleet().workers[0].status.state is WorkerState.DOWN
        with pytest.raises(UnavailableError, match="nothing was heard"):
            await anext(worker.seat.outbox.orders())


async def test_a_newer_stream_of_the_same_worker_takes_the_place_of_the_first() -> None:
    async with running() as coordinator:
        first, second = Worker.join(coordinator), Worker.join(coordinator)
        with pytest.raises(AbortedError, match="newer stream"):
            await anext(first.seat.outbox.orders())
        first.say(BUSY)
        coordinator.leave(first.seat)
        (account,) = coordinator.fleet().workers
        assert account.status == second.status


async def test_the_ledger_adds_up_while_workers_train_serve_and_vanish() -> None:
    async with running() as coordinator:
        worker = Worker.join(coordinator)
        await worker.live(10.0)
        worker.say(BUSY)
        await worker.live(5.0)
        coordinator.leave(worker.seat)
        await asyncio.sleep(20.0)
        seconds = coordinator.fleet().workers[0].seconds
        assert sum(seconds.values()) == pytest.approx(35.0)
        assert seconds[WorkerState.ROLLOUT] == pytest.approx(5.0)
        assert seconds[WorkerState.DOWN] == pytest.approx(20.0)
        assert seconds[WorkerState.TRAINING] > 10.0 - CONFIG.spot.settle_s - 3 * TICK_S
        assert coordinator.fleet().bubble_utilisation == pytest.approx(seconds[WorkerState.TRAINING] / 10.0)


async def test_every_worker_is_asked_to_load_a_published_drafter_late_ones_too() -> None:
    async with running() as coordinator:
        early = Worker.join(coordinator, "early", BUSY)
        wish = await coordinator.publish(publication(0))
        late = Worker.join(coordinator, "late", BUSY)
        assert [early.seat.outbox.take(), late.seat.outbox.take()] == [wish, wish]
        assert wish == DrafterWish(version=DrafterVersion(1), uri="file:///1")


async def test_turning_lending_off_takes_all_workers_back() -> None:
    async with running() as coordinator:
        worker = Worker.join(coordinator)
        await worker.live(1.0)
        assert coordinator.set_lending(enabled=False) is True
        assert await worker.live(5.0) == [Revocation(epoch=Epoch(1))]
        assert coordinator.set_lending(enabled=True) is False
        assert isinstance((await worker.live(1.0))[0], Lease)


async def test_a_restarted_coordinator_revokes_what_it_finds_and_grants_higher_epochs(tmp_path: Path) -> None:
    async with running(store=Store.open(tmp_path, now_s=0.0)) as coordinator:
        before = Worker.join(coordinator)
        await before.live(1.0)
        held = before.status
    async with running(store=Store.open(tmp_path, now_s=0.0)) as coordinator:
        revocation, lease, *_ = await Worker.join(coordinator, status=held).live(2.0)
    assert revocation == Revocation(epoch=held.epoch)
    assert isinstance(lease, Lease)
    assert lease.epoch > held.epoch


async def watched(coordinator: Coordinator, until: Callable[[], Awaitable[None]]) -> list[tuple[Member, ...]]:
    seen: list[tuple[Member, ...]] = []

    async def watch() -> None:
        async for members in coordinator.watch():
            seen.append(members)  # noqa: PERF401 - the stream never ends

    async with asyncio.TaskGroup() as tasks:
        watching = tasks.create_task(watch())
        await asyncio.sleep(0)
        await until()
        watching.cancel()
    return seen


async def test_gateways_see_the_fleet_at_once_and_when_it_changed() -> None:
    async with running() as coordinator:

        async def change() -> None:
            worker = Worker.join(coordinator, status=BUSY)
            await worker.live(1.0)
            worker.say(replace(BUSY, running=2))
            await worker.live(1.0)
            worker.say(replace(BUSY, running=2, produced_tokens=99, training_steps=3))
            await worker.live(1.0)
            coordinator.leave(worker.seat)
            await asyncio.sleep(1.0)

        loads = [[member.status.running for member in members] for members in await watched(coordinator, change)]
        assert loads == [[], [1], [2], []]


async def test_gateways_get_a_burst_of_changes_as_few_pictures() -> None:
    async with running() as coordinator:

        async def burst() -> None:
            worker = Worker.join(coordinator, status=BUSY)
            for running in range(100):
                worker.say(replace(BUSY, running=running))
                await asyncio.sleep(COALESCE_S / 50)
            await asyncio.sleep(1.0)

        pictures = await watched(coordinator, burst)
        assert len(pictures) <= 5
        assert pictures[-1][0].status.running == 99


@pytest.mark.parametrize(("gateway_id", "queued", "field"), [("", 1, "gateway_id"), ("g", -1, "queued_count")])
async def test_a_senseless_queue_is_refused_by_field(gateway_id: str, queued: int, field: str) -> None:
    async with running() as coordinator:
        with pytest.raises(InvalidRequestError) as refused:
            coordinator.report_queue(gateway_id, queued)
        assert refused.value.field == field
