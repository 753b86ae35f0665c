"""What the tuner keeps, in virtual time."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace

import pytest

from tlt_common.domain.arm import ArmWindow
from tlt_common.domain.ids import DrafterVersion
from tlt_common.domain.tuner import PoolKey, Posterior
from tlt_common.errors import UnavailableError
from tlt_tuner.persistence import PoolPersistence
from tlt_tuner.pools import POOLS, PoolName
from tlt_tuner.tuner import Tuner

pytestmark = pytest.mark.looptime

KEY = PoolKey(fleet="f", model="tiny", device="cpu", drafter_version=DrafterVersion(1))
NAME = PoolName("f", "tiny", "cpu")
WINDOW = ArmWindow(
    arm="chain-3", group=1, rounds=5, accepted_tokens=5, produced_tokens=10, elapsed_s=0.1, median_reward=100.0
)


class FakeStore:
    """Keeps pools in a dictionary while it is up."""

    def __init__(self) -> None:
        self.pools: dict[PoolName, Posterior] = {}
        self.is_up = True
        self.writes = 0

    async def load(self) -> Mapping[PoolName, Posterior]:
        self._need()
        return dict(self.pools)

    async def save(self, pools: Mapping[PoolName, Posterior]) -> None:
        self._need()
        self.pools.update(pools)
        self.writes += 1

    async def ping(self) -> None:
        self._need()

    async def remove(self, names: tuple[PoolName, ...]) -> None:
        self._need()
        for name in names:
            del self.pools[name]

    def _need(self) -> None:
        if not self.is_up:
            raise UnavailableError("the store is down")


def known(tuner: Tuner) -> dict[str, ArmWindow]:
    return {arm.arm: arm for arm in tuner.known()[NAME].arms}


async def test_what_one_tuner_learned_the_next_one_knows() -> None:
    store, first, second = FakeStore(), Tuner(), Tuner()
    first.report(KEY, [WINDOW])
    await PoolPersistence(first, store, every_s=5.0).step()
    await PoolPersistence(second, store, every_s=5.0).step()
    assert second.known() == first.known()


async def test_only_what_changed_is_written() -> None:
    store, tuner = FakeStore(), Tuner()
    persistence = PoolPersistence(tuner, store, every_s=5.0)
    for _ in range(3):
        await persistence.step()
    assert store.writes == 0
    tuner.report(KEY, [WINDOW])
    for _ in range(3):
        await persistence.step()
    assert store.writes == 1


async def test_a_store_that_comes_late_is_not_written_over() -> None:
    store, tuner = FakeStore(), Tuner()
    store.pools[NAME] = Posterior(drafter_version=DrafterVersion(1), arms=(replace(WINDOW, arm="off"), WINDOW))
    store.is_up = False
    persistence = PoolPersistence(tuner, store, every_s=5.0)
    await persistence.step()
    tuner.report(KEY, [replace(WINDOW, median_reward=300.0)])
    await persistence.step()
    store.is_up = True
    await persistence.step()
    assert known(tuner).keys() == {"off", "chain-3"}
    assert known(tuner)["chain-3"].median_reward == 300.0  # its own rounds are newer
    assert store.pools == tuner.known()


async def test_a_store_that_goes_away_gets_everything_when_it_is_back() -> None:
    store, tuner = FakeStore(), Tuner()
    persistence = PoolPersistence(tuner, store, every_s=5.0)
    await persistence.step()
    store.is_up = False
    tuner.report(KEY, [WINDOW])
    await persistence.step()
    assert not store.pools
    store.is_up = True
    await persistence.step()
    assert store.pools == tuner.known()


async def test_what_was_learned_for_an_older_drafter_is_not_restored_over_a_newer_one() -> None:
    store, tuner = FakeStore(), Tuner()
    store.pools[NAME] = Posterior(drafter_version=DrafterVersion(1), arms=(WINDOW,))
    tuner.report(replace(KEY, drafter_version=DrafterVersion(2)), [replace(WINDOW, arm="chain-7")])
    await PoolPersistence(tuner, store, every_s=5.0).step()
    assert known(tuner).keys() == {"chain-7"}
    assert tuner.known()[NAME].drafter_version == 2


async def test_pools_that_are_forgotten_leave_the_store() -> None:
    store, tuner = FakeStore(), Tuner()
    persistence = PoolPersistence(tuner, store, every_s=5.0)
    for number in range(POOLS):
        tuner.report(replace(KEY, model=f"m{number}"), [WINDOW])
    await persistence.step()
    tuner.report(replace(KEY, model="new"), [WINDOW])
    await persistence.step()
    assert len(store.pools) == POOLS
    assert PoolName("f", "m0", "cpu") not in store.pools


async def test_the_last_reports_are_written_at_the_end() -> None:
    store, tuner = FakeStore(), Tuner()
    async with asyncio.TaskGroup() as parts:
        keeping = parts.create_task(PoolPersistence(tuner, store, every_s=5.0).run())
        await asyncio.sleep(1.0)
        tuner.report(KEY, [WINDOW])
        keeping.cancel()
    assert store.pools == tuner.known()
