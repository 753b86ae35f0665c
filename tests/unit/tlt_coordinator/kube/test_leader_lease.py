"""Leadership and the state in the Lease, in virtual time."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from tests.fakes.kube import FakeKube, FakeServer
from tlt_common.domain.fleet import DrafterRecord, DrafterWish
from tlt_common.domain.ids import DrafterVersion, Epoch, WorkerId
from tlt_common.errors import ConfigError, InvalidRequestError, UnavailableError
from tlt_coordinator.config import KubernetesSettings
from tlt_coordinator.kube.leader_lease import RECORDS_KEPT, LeaderLease, LostError, Term, decoded, encoded
from tlt_coordinator.state import State

pytestmark = pytest.mark.looptime

LEASE = "tlt-coordinator"
STATE = State(drafter=DrafterWish(version=DrafterVersion(3), uri="file:///3"), reserved_epoch=Epoch(99))


def record(version: int) -> DrafterRecord:
    return DrafterRecord(version=DrafterVersion(version), worker_id=WorkerId("w0"), at_unix_s=1.5, held_out_top1=1 / 3)


def leader_lease(kube: FakeKube, pod: str = "c-0") -> LeaderLease:
    return LeaderLease(kube, KubernetesSettings(namespace="rl", pod=pod, lease=LEASE))


@asynccontextmanager
async def holding(kept: LeaderLease) -> AsyncIterator[asyncio.Task[None]]:
    """The Lease is renewed meanwhile; the task ends when it lost the Lease."""

    async def hold() -> None:
        try:
            await kept.hold()
        except LostError:
            return

    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(hold())
        yield task
        task.cancel()


async def lead(kube: FakeKube, pod: str = "c-0") -> tuple[LeaderLease, Term]:
    async with asyncio.timeout(60):
        kept = leader_lease(kube, pod)
        return kept, await kept.acquire()


async def test_the_first_replica_leads_and_finds_nothing() -> None:
    kube = FakeKube()
    kept, term = await lead(kube)
    assert kept.leads
    assert term.state == State()
    assert kube.server.leases[LEASE].holder.startswith("c-0_")
    assert kept.leader == "c-0"


async def test_a_leader_renews_and_the_other_stands_by() -> None:
    server = FakeServer()
    first, _ = await lead(FakeKube(server))
    second = leader_lease(FakeKube(server), "c-1")
    async with holding(first) as held:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(300):
                await second.acquire()
        assert first.leads
        assert not held.done()
    assert second.leader == "c-0"


async def test_a_lease_given_up_is_taken_at_the_next_look_with_the_state_in_it() -> None:
    server = FakeServer()
    first, term = await lead(FakeKube(server))
    await term.write(STATE)
    second = leader_lease(FakeKube(server), "c-1")
    async with asyncio.TaskGroup() as tasks:
        acquire = tasks.create_task(second.acquire())
        await asyncio.sleep(1.0)
        await first.release()
        await asyncio.sleep(2.0)
        assert acquire.done()
    assert acquire.result().state == STATE
    assert server.leases[LEASE].transitions == 1
    assert not first.leads


async def test_a_killed_leader_is_replaced_after_what_it_promised(looptime: float) -> None:
    server = FakeServer()
    _, term = await lead(FakeKube(server))
    await term.write(STATE)
    _, second = await lead(FakeKube(server), "c-1")
    assert 15.0 <= looptime <= 18.0
    assert second.state == STATE


@pytest.mark.parametrize("trouble", ["away", "mute"])
async def test_a_leader_that_cannot_renew_stops_before_another_may_lead(trouble: str, looptime: float) -> None:
    kube = FakeKube()
    kept, _ = await lead(kube)
    kube.away = kube.mute = False
    setattr(kube, trouble, True)
    async with holding(kept) as held:
        await held
        assert 9.9 < looptime < 10.1
        assert not kept.leads


async def test_a_leader_survives_a_short_outage() -> None:
    kube = FakeKube()
    kept, term = await lead(kube)
    async with holding(kept) as held:
        for _ in range(20):
            kube.away = True
            await asyncio.sleep(5.0)
            kube.away = False
            await asyncio.sleep(5.0)
        assert not held.done()
        await term.write(STATE)
    assert decoded(kube.server.leases[LEASE].state, LEASE) == STATE


async def test_calls_that_hang_end_in_time() -> None:
    kube = FakeKube()
    kept, term = await lead(kube)
    kube.delay_s = 3600.0
    async with holding(kept) as held:
        with pytest.raises(UnavailableError):
            await term.write(STATE)
        await held
        assert asyncio.get_running_loop().time() < 10.1


async def test_a_write_whose_answer_was_lost_does_not_count_and_the_next_one_replaces_it() -> None:
    kube = FakeKube()
    _, term = await lead(kube)
    await term.write(STATE)
    kube.mute = True
    with pytest.raises(UnavailableError, match="could not be written"):
        await term.write(replace(STATE, reserved_epoch=Epoch(100)))
    kube.mute = False
    await term.write(replace(STATE, reserved_epoch=Epoch(101)))
    assert decoded(kube.server.leases[LEASE].state, LEASE).reserved_epoch == 101


async def test_a_renewal_restores_what_counts_after_a_write_whose_answer_was_lost() -> None:
    kube = FakeKube()
    kept, term = await lead(kube)
    await term.write(STATE)
    kube.mute = True
    with pytest.raises(UnavailableError):
        await term.write(replace(STATE, reserved_epoch=Epoch(100)))
    kube.mute = False
    async with holding(kept):
        await asyncio.sleep(3.0)
    assert decoded(kube.server.leases[LEASE].state, LEASE) == STATE


async def test_another_hand_at_the_lease_disturbs_nobody() -> None:
    kube = FakeKube()
    kept, term = await lead(kube)
    server = kube.server
    async with holding(kept) as held:
        for _ in range(5):
            server.leases[LEASE] = replace(server.leases[LEASE], version=str(next(server.versions)))
            await asyncio.sleep(2.0)
        await term.write(STATE)
        assert not held.done()
    assert decoded(server.leases[LEASE].state, LEASE) == STATE


async def test_a_lease_that_was_deleted_is_made_again_with_what_it_kept() -> None:
    kube = FakeKube()
    kept, term = await lead(kube)
    await term.write(STATE)
    async with holding(kept) as held:
        del kube.server.leases[LEASE]
        await asyncio.sleep(3.0)
        assert not held.done()
    assert decoded(kube.server.leases[LEASE].state, LEASE) == STATE


async def test_nothing_of_a_former_leader_arrives() -> None:
    server = FakeServer()
    _, stale = await lead(FakeKube(server))
    _, term = await lead(FakeKube(server), "c-1")
    await term.write(STATE)
    with pytest.raises(UnavailableError, match="no longer leads"):
        await stale.write(State())
    assert decoded(server.leases[LEASE].state, LEASE) == STATE


async def test_nothing_of_a_former_term_arrives_in_the_next_one_of_the_same_replica() -> None:
    kept, former = await lead(FakeKube())
    await asyncio.sleep(11.0)
    term = await kept.acquire()
    await term.write(STATE)
    with pytest.raises(UnavailableError, match="no longer leads"):
        await former.write(State())


async def test_a_write_that_is_cancelled_leaves_the_lease_usable() -> None:
    kube = FakeKube(delay_s=0.5)
    kept, term = await lead(kube)
    async with holding(kept) as held:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await term.write(State())
        await term.write(STATE)
        assert not held.done()
    assert decoded(kube.server.leases[LEASE].state, LEASE) == STATE


async def test_a_missing_right_is_waited_for() -> None:
    kube = FakeKube(refused={("create", "leases")})
    async with asyncio.TaskGroup() as tasks:
        acquire = tasks.create_task(leader_lease(kube).acquire())
        await asyncio.sleep(60.0)
        assert not acquire.done()
        kube.refused.clear()
        await asyncio.sleep(2.0)
        assert acquire.done()


async def test_a_state_of_somebody_else_is_refused_before_the_lease_is_taken() -> None:
    kube = FakeKube()
    kept, _ = await lead(kube)
    await kept.release()
    kube.server.leases[LEASE] = replace(kube.server.leases[LEASE], state="{")
    with pytest.raises(ConfigError, match="remove the annotation"):
        await leader_lease(kube, "c-1").acquire()
    assert kube.server.leases[LEASE].holder == ""


async def test_only_the_newest_records_are_kept() -> None:
    state = replace(STATE, drafters=tuple(record(version) for version in range(1, 1025)))
    kept = decoded(encoded(state), LEASE)
    assert kept == replace(state, drafters=state.drafters[-RECORDS_KEPT:])
    assert len(encoded(state)) < 20_000


async def test_a_state_that_is_too_large_is_refused() -> None:
    with pytest.raises(InvalidRequestError) as refused:
        encoded(replace(STATE, drafter=DrafterWish(version=DrafterVersion(3), uri="x" * 200_000)))
    assert refused.value.field == "uri"
