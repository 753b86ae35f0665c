"""The coordinator in virtual time, its workers scripted."""

import asyncio
from pathlib import Path

import pytest

from tests.unit.tlt_coordinator.scripted import BUSY, CONFIG, IDLE, Worker, fleet_of, publication, running
from tlt_common.domain.fleet import (
    DrafterWish,
    Lease,
    Revocation,
    WorkerState,
)
from tlt_common.domain.ids import DrafterVersion, Epoch, WorkerId
from tlt_common.errors import AbortedError, InvalidRequestError, UnavailableError
from tlt_common.load import GatewayLoad, WorkerLoad, by_cap
from tlt_coordinator.config import LEASE_TTL_S
from tlt_coordinator.coordinator import TICK_S
from tlt_coordinator.lending.measures import UNKNOWN_SETTLE_S
from tlt_coordinator.queues import QUEUE_STALE_S
from tlt_coordinator.state import StateStore

pytestmark = pytest.mark.looptime


async def test_an_idle_worker_is_lent_once_it_has_settled() -> None:
    async with running() as coordinator:
        worker = Worker.join(coordinator)
        assert await worker.live(UNKNOWN_SETTLE_S - TICK_S) == []
        (lease,) = await worker.live(3 * TICK_S)
        assert lease == Lease(epoch=Epoch(1), ttl_s=LEASE_TTL_S)


async def test_waiting_requests_end_all_leases_at_once_and_for_as_long_as_they_wait() -> None:
    async with running() as coordinator:
        workers = [Worker.join(coordinator, name) for name in ("w0", "w1")]
        await asyncio.gather(*(worker.live(1.0) for worker in workers))
        coordinator.report_queue("gateway", 3)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert [type(worker.session.outbox.take()) for worker in workers] == [Revocation, Revocation]
        for _ in range(3):
            assert [order for worker in workers for order in await worker.live(1.0) if isinstance(order, Lease)] == []
            coordinator.report_queue("gateway", 3)


async def test_a_gateway_that_died_with_a_full_queue_does_not_stop_lending_for_ever() -> None:
    async with running() as coordinator:
        worker = Worker.join(coordinator)
        coordinator.report_queue("gateway", 3)
        assert await worker.live(QUEUE_STALE_S - 0.2) == []
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
        assert (await fleet_of(coordinator)).workers[0].status.state is WorkerState.TRAINING
        await asyncio.sleep(2 * TICK_S)
        assert (await fleet_of(coordinator)).workers[0].status.state is WorkerState.DOWN
        with pytest.raises(UnavailableError, match="no status was received"):
            await anext(worker.session.outbox.orders())


async def test_a_newer_stream_of_the_same_worker_takes_the_place_of_the_first() -> None:
    async with running() as coordinator:
        first, second = Worker.join(coordinator), Worker.join(coordinator)
        with pytest.raises(AbortedError, match="newer stream"):
            await anext(first.session.outbox.orders())
        first.say(BUSY)
        coordinator.leave(first.session)
        (account,) = (await fleet_of(coordinator)).workers
        assert account.status == second.status


async def test_the_ledger_adds_up_while_workers_train_serve_and_vanish() -> None:
    async with running() as coordinator:
        worker = Worker.join(coordinator)
        await worker.live(10.0)
        worker.say(BUSY)
        await worker.live(5.0)
        coordinator.leave(worker.session)
        await asyncio.sleep(20.0)
        seconds = (await fleet_of(coordinator)).workers[0].seconds
        assert sum(seconds.values()) == pytest.approx(35.0)
        assert seconds[WorkerState.ROLLOUT] == pytest.approx(5.0)
        assert seconds[WorkerState.DOWN] == pytest.approx(20.0)
        lent_s = 10.0 - UNKNOWN_SETTLE_S
        assert seconds[WorkerState.TRAINING] == pytest.approx(lent_s / 2, abs=3 * TICK_S)
        assert seconds[WorkerState.SWITCHING] == pytest.approx(lent_s / 2, abs=3 * TICK_S)
        assert (await fleet_of(coordinator)).bubble_utilisation == pytest.approx(seconds[WorkerState.TRAINING] / 10.0)


async def test_every_worker_is_asked_to_load_a_published_drafter_late_ones_too() -> None:
    async with running() as coordinator:
        early = Worker.join(coordinator, "early", BUSY)
        wish = await coordinator.publish(publication(0))
        late = Worker.join(coordinator, "late", BUSY)
        assert [early.session.outbox.take(), late.session.outbox.take()] == [wish, wish]
        assert wish == DrafterWish(version=DrafterVersion(1), uri="file:///1")


async def test_leases_and_renewals_name_the_newest_drafter() -> None:
    async with running() as coordinator:
        worker = Worker.join(coordinator)
        before = [order.newest for order in await worker.live(1.0) if isinstance(order, Lease)]
        await coordinator.publish(publication(0))
        after = [order.newest for order in await worker.live(4.0) if isinstance(order, Lease)]
        assert set(before) == {0}
        assert set(after) == {1}


async def test_turning_lending_off_takes_all_workers_back() -> None:
    async with running() as coordinator:
        worker = Worker.join(coordinator)
        await worker.live(1.0)
        assert coordinator.set_lending(enabled=False) is True
        assert await worker.live(5.0) == [Revocation(epoch=Epoch(1))]
        assert coordinator.set_lending(enabled=True) is False
        assert isinstance((await worker.live(1.0))[0], Lease)


async def test_a_restarted_coordinator_revokes_what_it_finds_and_grants_higher_epochs(tmp_path: Path) -> None:
    async with running(store=StateStore.open(tmp_path, now_s=0.0)) as coordinator:
        before = Worker.join(coordinator)
        await before.live(1.0)
        held = before.status
    async with running(store=StateStore.open(tmp_path, now_s=0.0)) as coordinator:
        revocation, lease, *_ = await Worker.join(coordinator, status=held).live(2.0)
    assert revocation == Revocation(epoch=held.epoch)
    assert isinstance(lease, Lease)
    assert lease.epoch > held.epoch


@pytest.mark.parametrize(("gateway_id", "queued", "field"), [("", 1, "gateway_id"), ("g", -1, "queued_count")])
async def test_a_senseless_queue_is_refused_by_field(gateway_id: str, queued: int, field: str) -> None:
    async with running() as coordinator:
        with pytest.raises(InvalidRequestError) as refused:
            coordinator.report_queue(gateway_id, queued)
        assert refused.value.field == field


async def test_a_step_of_gateways_that_vanished_has_ended() -> None:
    async with running() as coordinator:
        load = WorkerLoad(worker_id=WorkerId("w0"), running=by_cap([(64, 1)]))
        coordinator.report_load("gateway", GatewayLoad(workers=(load,)))
        (step,) = coordinator.observer.steps(0.0, 1e12)
        assert step.ended_s is None
        await asyncio.sleep(QUEUE_STALE_S + 1.0)
        (step,) = coordinator.observer.steps(0.0, 1e12)
        assert step.ended_s == coordinator.observer.now()
