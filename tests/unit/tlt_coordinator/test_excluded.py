"""Operators exclude workers from lending."""

import pytest

from tests.unit.tlt_coordinator.scripted import Worker, fleet_of, running
from tlt_common.domain.fleet import Lease, Revocation
from tlt_common.domain.ids import WorkerId
from tlt_common.errors import InvalidRequestError
from tlt_coordinator.coordinator import Coordinator
from tlt_coordinator.lending.decision import Standing
from tlt_coordinator.state import State, StateStore

pytestmark = pytest.mark.looptime
W0, W1 = WorkerId("w0"), WorkerId("w1")


async def standings(coordinator: Coordinator) -> dict[str, str]:
    return {account.hello.worker_id: account.standing for account in (await fleet_of(coordinator)).workers}


async def test_an_excluded_worker_gives_its_device_back_and_gets_no_lease_until_it_is_included() -> None:
    async with running() as coordinator:
        worker, other = Worker.join(coordinator, W0), Worker.join(coordinator, W1)
        assert any(isinstance(order, Lease) for order in await worker.live(1))
        await other.live(1)
        assert await standings(coordinator) == {W0: Standing.LENT, W1: Standing.LENT}
        assert await coordinator.exclude([W0], excluded=True) == (W0,)
        (order,) = await worker.live(0.5)
        assert isinstance(order, Revocation)
        assert await worker.live(3) == []
        await other.live(0.1)
        assert await standings(coordinator) == {W0: Standing.EXCLUDED, W1: Standing.LENT}
        assert await coordinator.exclude([W0], excluded=False) == ()
        assert any(isinstance(order, Lease) for order in await worker.live(1))


async def test_a_restarted_coordinator_excludes_it_as_well_also_before_it_joins() -> None:
    store = StateStore(State(), None)
    async with running(store=store) as coordinator:
        Worker.join(coordinator, W0)
        await coordinator.exclude([W0], excluded=True)
    async with running(store=store) as coordinator:
        worker = Worker.join(coordinator, W0)
        assert await worker.live(2) == []
        assert await standings(coordinator) == {W0: Standing.EXCLUDED}


@pytest.mark.parametrize(
    ("named", "message"), [([], "worker_ids is empty"), ([WorkerId("w9")], "no worker 'w9' was seen; accepted: w0")]
)
async def test_a_worker_that_nobody_saw_is_not_excluded(named: list[WorkerId], message: str) -> None:
    async with running() as coordinator:
        Worker.join(coordinator, W0)
        with pytest.raises(InvalidRequestError, match=message) as refused:
            await coordinator.exclude(named, excluded=True)
        assert refused.value.field == "worker_ids"
        assert (await coordinator.exclude([WorkerId("gone")], excluded=False)) == ()


async def test_a_timeline_and_sums_survive_a_coordinator() -> None:
    store = StateStore(State(), None)
    async with running(store=store) as coordinator:
        await Worker.join(coordinator, W0).live(61)
        used = (await fleet_of(coordinator)).bubble_utilisation
    async with running(store=store) as coordinator:
        assert sum(store.state.seconds.values()) == pytest.approx(60, abs=1)
        assert (await fleet_of(coordinator)).bubble_utilisation == pytest.approx(used, abs=0.05)
