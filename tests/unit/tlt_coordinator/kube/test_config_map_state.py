"""The state in the ConfigMap, and coordinators that find another one's there, in virtual time."""

import asyncio
from dataclasses import replace

import pytest

from tests.fakes.kube import FakeKube, FakeServer
from tests.unit.tlt_coordinator.scripted import IDLE, Worker, publication
from tlt_common.domain.fleet import DrafterRecord, DrafterWish, Lease, Revocation, WorkerState
from tlt_common.domain.ids import DrafterVersion, Epoch, WorkerId
from tlt_common.errors import ConfigError, InvalidRequestError, UnavailableError
from tlt_coordinator.clock import Clock
from tlt_coordinator.config import CoordinatorConfig, KubernetesSettings
from tlt_coordinator.coordinator import Coordinator
from tlt_coordinator.kube.api import ConfigMapObject
from tlt_coordinator.kube.cluster import Cluster
from tlt_coordinator.kube.config_map_state import STATE_BYTES, ConfigMapState, decoded, encoded
from tlt_coordinator.kube.refusals import Refusals
from tlt_coordinator.main import lend
from tlt_coordinator.state import EPOCH_BLOCK, TOTALS_EVERY_S, State

pytestmark = pytest.mark.looptime

NAME = "tlt-coordinator-state"
NOW_S = 1_700_000_000.0
STATE = State(drafter=DrafterWish(version=DrafterVersion(3), uri="file:///3"), reserved_epoch=Epoch(99))
ENDED = r"was written by another coordinator \(c-1\): this coordinator ends"


def at(kube: FakeKube, pod: str = "c-0") -> ConfigMapState:
    return ConfigMapState(kube, KubernetesSettings(namespace="rl", pod=pod, config_map=NAME), Refusals())


async def opened(kube: FakeKube, pod: str = "c-0") -> ConfigMapState:
    found = at(kube, pod)
    await found.read(lambda: NOW_S)
    return found


def stored(server: FakeServer) -> State:
    return decoded(server.config_maps[NAME].data, NAME)


class Running:
    """A coordinator in a cluster, from its start until it ends by itself or is killed."""

    def __init__(self, kube: FakeKube, pod: str) -> None:
        self._kube = kube
        self._pod = pod
        self._coordinator: asyncio.Future[Coordinator] = asyncio.get_running_loop().create_future()
        self.task = asyncio.ensure_future(self._run())

    async def serving(self) -> Coordinator:
        return await self._coordinator

    async def kill(self) -> None:
        self.task.cancel()
        await asyncio.wait({self.task})

    async def _run(self) -> None:
        cluster, clock = Cluster(self._kube, KubernetesSettings(namespace="rl", pod=self._pod)), Clock()
        coordinator = Coordinator(CoordinatorConfig(), await cluster.open(clock.now), clock)
        self._coordinator.set_result(coordinator)
        await lend(coordinator, cluster.run)


async def test_without_a_config_map_epochs_start_above_all_that_can_have_been_granted() -> None:
    kube = FakeKube()
    assert await at(kube).read(lambda: NOW_S) == State(reserved_epoch=Epoch(int(NOW_S * 1_000_000)))
    assert not kube.server.config_maps, "nothing is written before there is something to store"


async def test_what_was_written_is_read_by_the_next_one_with_what_others_put_beside_it() -> None:
    kube = FakeKube()
    await (await opened(kube)).write(STATE)
    found = kube.server.config_maps[NAME]
    kube.server.config_maps[NAME] = replace(found, data={**found.data, "note": "ours"}, metadata={"labels": {"a": "b"}})
    second = at(kube, "c-1")
    assert await second.read(lambda: NOW_S) == STATE
    await second.write(replace(STATE, reserved_epoch=Epoch(100)))
    assert stored(kube.server).reserved_epoch == 100
    assert kube.server.config_maps[NAME].data["note"] == "ours"
    assert kube.server.config_maps[NAME].metadata == {"labels": {"a": "b"}}


async def test_a_state_that_was_copied_there_by_hand_is_continued() -> None:
    kube = FakeKube(FakeServer(config_maps={NAME: ConfigMapObject(data={"state": encoded(STATE)}, version="1")}))
    state = at(kube)
    assert await state.read(lambda: NOW_S) == STATE
    await state.write(replace(STATE, reserved_epoch=Epoch(100)))
    assert stored(kube.server).reserved_epoch == 100


async def test_the_start_waits_for_the_api_server_and_for_permissions() -> None:
    kube = FakeKube(away=True, refused={("get", "configmaps")})
    async with asyncio.TaskGroup() as tasks:
        reading = tasks.create_task(at(kube).read(lambda: NOW_S))
        await asyncio.sleep(60.0)
        kube.away = False
        await asyncio.sleep(60.0)
        assert not reading.done()
        kube.refused.clear()
        await asyncio.sleep(2.0)
        assert reading.done()


async def test_a_write_whose_answer_was_lost_ends_nothing_and_the_next_one_replaces_it() -> None:
    kube = FakeKube()
    state = await opened(kube)
    for epoch in (100, 200):
        kube.mute = True
        with pytest.raises(UnavailableError, match="could not be written"):
            await state.write(replace(STATE, reserved_epoch=Epoch(epoch)))
        assert stored(kube.server).reserved_epoch == epoch
        kube.mute = False
        await state.write(replace(STATE, reserved_epoch=Epoch(epoch + 1)))
        assert stored(kube.server).reserved_epoch == epoch + 1


async def test_calls_that_hang_end_in_time(looptime: float) -> None:
    kube = FakeKube()
    state = await opened(kube)
    kube.delay_s = 3600.0
    with pytest.raises(UnavailableError, match="timed out"):
        await state.write(STATE)
    assert looptime < 11.0


async def test_labels_that_somebody_sets_on_it_disturb_nobody() -> None:
    kube = FakeKube()
    state = await opened(kube)
    await state.write(State())
    server = kube.server
    server.config_maps[NAME] = replace(server.config_maps[NAME], version=str(next(server.versions)))
    await state.write(STATE)
    assert stored(server) == STATE


@pytest.mark.parametrize("data", [{}, {"state": "{"}])
async def test_a_config_map_of_somebody_else_is_refused_by_name(data: dict[str, str]) -> None:
    kube = FakeKube(FakeServer(config_maps={NAME: ConfigMapObject(data=data, version="1")}))
    with pytest.raises(ConfigError, match=f"the ConfigMap {NAME} does not hold a coordinator's state; delete it") as no:
        await opened(kube)
    assert no.value.field == "kubernetes.config_map"


def test_all_records_fit_and_a_state_that_does_not_is_refused() -> None:
    record = DrafterRecord(
        version=DrafterVersion(1), worker_id=WorkerId("w" * 60), at_unix_s=1e9 / 3, held_out_top1=1 / 3
    )
    excluded = tuple(WorkerId(f"rl-tlt-worker-{number:050}") for number in range(10_240))
    full = replace(STATE, drafters=(record,) * 1024, excluded=excluded)
    assert len(encoded(full)) < STATE_BYTES
    with pytest.raises(InvalidRequestError, match="exclude fewer workers"):
        encoded(replace(full, excluded=excluded * 2))


async def test_a_restarted_coordinator_goes_on_with_drafter_exclusions_and_higher_epochs() -> None:
    server = FakeServer()
    first = Running(FakeKube(server), "c-0")
    coordinator = await first.serving()
    worker, other = Worker.join(coordinator), Worker.join(coordinator, "w1")
    await coordinator.publish(publication(0))
    await coordinator.exclude([WorkerId("w1")], excluded=True)
    (lease,) = [order for order in await worker.live(2.0) if isinstance(order, Lease)]
    assert await other.live(1.0)
    await first.kill()
    second = Running(FakeKube(server), "c-0")
    coordinator = await second.serving()
    assert coordinator.drafter == DrafterWish(version=DrafterVersion(1), uri="file:///1")
    training = replace(IDLE, state=WorkerState.TRAINING, epoch=lease.epoch, lent=True)
    worker, other = Worker.join(coordinator, status=training), Worker.join(coordinator, "w1")
    orders = await worker.live(3.0)
    assert Revocation(epoch=lease.epoch) in orders, "a lease of the former coordinator ends"
    (again, *_) = [order for order in orders if isinstance(order, Lease)]
    assert again.epoch > lease.epoch + EPOCH_BLOCK // 2
    assert not [order for order in await other.live(1.0) if isinstance(order, Lease)]
    await second.kill()


async def test_of_two_the_older_one_stops_granting_and_says_why(looptime: float) -> None:
    server = FakeServer()
    older = Running(FakeKube(server), "c-0")
    first = await older.serving()
    worker = Worker.join(first)
    (lease,) = [order for order in await worker.live(1.0) if isinstance(order, Lease)]
    newer = Running(FakeKube(server), "c-1")
    second = await newer.serving()
    (taken,) = [order for order in await Worker.join(second, "w1").live(1.0) if isinstance(order, Lease)]
    assert taken.epoch > lease.epoch
    with pytest.raises(UnavailableError, match=ENDED):
        await first.publish(publication(0))
    await asyncio.sleep(0.1)
    assert older.task.done()
    with pytest.raises(ExceptionGroup) as ended:
        await older.task
    assert ended.group_contains(UnavailableError, match=ENDED)
    with pytest.raises(UnavailableError, match="has ended"):
        await anext(worker.session.outbox.orders())
    worker.say(IDLE)
    await asyncio.sleep(10.0)
    assert worker.session.outbox.take() is None, "nothing is granted any more"
    assert not newer.task.done()
    await newer.kill()


async def test_a_coordinator_notices_another_one_although_nothing_is_published(looptime: float) -> None:
    server = FakeServer()
    older = Running(FakeKube(server), "c-0")
    Worker.join(await older.serving())
    await asyncio.sleep(1.0)
    await (await opened(FakeKube(server), "c-1")).write(STATE)
    with pytest.raises(ExceptionGroup) as ended:
        await older.task
    assert ended.group_contains(UnavailableError, match=ENDED)
    assert looptime < TOTALS_EVERY_S + 1.0


async def test_a_coordinator_whose_state_was_deleted_ends_and_begins_above_its_epochs() -> None:
    server = FakeServer()
    older = Running(FakeKube(server), "c-0")
    worker = Worker.join(await older.serving())
    (lease,) = [order for order in await worker.live(1.0) if isinstance(order, Lease)]
    server.config_maps.clear()
    with pytest.raises(ExceptionGroup) as ended:
        await older.task
    assert ended.group_contains(UnavailableError, match="was deleted: this coordinator ends")
    assert (await at(FakeKube(server)).read(lambda: NOW_S * 2)).reserved_epoch > lease.epoch


async def test_the_api_server_may_be_away_while_leases_are_granted() -> None:
    kube = FakeKube()
    running = Running(kube, "c-0")
    coordinator = await running.serving()
    await asyncio.sleep(1.0)
    kube.away = True
    worker = Worker.join(coordinator)
    await worker.live(100.0)
    assert worker.status.state is WorkerState.TRAINING
    with pytest.raises(UnavailableError, match="could not be written"):
        await coordinator.publish(publication(0))
    kube.away = False
    assert (await coordinator.publish(publication(0))).version == 1
    assert not running.task.done()
    await running.kill()
