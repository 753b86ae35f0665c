"""The tuner in virtual time."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from prometheus_client import REGISTRY

from tlt_common.domain.arm import ArmWindow
from tlt_common.domain.ids import DrafterVersion
from tlt_common.domain.tuner import PoolKey, Posterior
from tlt_tuner.pools import WINDOWS_PER_ARM, PoolName
from tlt_tuner.tuner import MAX_SHOWN, Tuner

pytestmark = pytest.mark.looptime

KEY = PoolKey(model="tiny", device="cpu", drafter_version=DrafterVersion(1))
WINDOW = ArmWindow(
    arm="off", group=1, rounds=1, accepted_tokens=0, produced_tokens=1, elapsed_s=0.1, median_reward=10.0
)


@asynccontextmanager
async def watching(tuner: Tuner, name: PoolName) -> AsyncIterator[list[Posterior]]:
    pushed: list[Posterior] = []

    async def watch() -> None:
        async for posterior in tuner.watch(name):
            pushed.append(posterior)  # noqa: PERF401 - the stream never ends

    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(watch())
        await asyncio.sleep(0)
        yield pushed
        task.cancel()


@pytest.fixture
def tuner() -> Tuner:
    return Tuner()


async def test_what_is_known_is_pushed_at_once(tuner: Tuner) -> None:
    tuner.report(KEY, [WINDOW])
    async with watching(tuner, PoolName("default", "tiny", "cpu")) as pushed:
        assert [posterior.arms for posterior in pushed] == [(WINDOW,)]


async def test_nothing_is_pushed_before_anything_is_known(tuner: Tuner) -> None:
    async with watching(tuner, PoolName("default", "tiny", "cpu")) as pushed:
        await asyncio.sleep(60.0)
        assert pushed == []
        tuner.report(KEY, [WINDOW])
        await asyncio.sleep(0.01)
        assert len(pushed) == 1


async def test_a_stream_of_reports_is_pushed_once_a_second(tuner: Tuner) -> None:
    async with watching(tuner, PoolName("default", "tiny", "cpu")) as pushed:
        for reported in range(100):
            tuner.report(KEY, [replace(WINDOW, median_reward=1.0 + reported)])
            await asyncio.sleep(0.1)
        await asyncio.sleep(2.0)
        assert 10 <= len(pushed) <= 12
        assert pushed[-1].arms[0].rounds == WINDOWS_PER_ARM


async def test_reports_to_another_pool_are_not_pushed(tuner: Tuner) -> None:
    async with watching(tuner, PoolName("default", "other", "cpu")) as pushed:
        tuner.report(KEY, [WINDOW])
        await asyncio.sleep(10.0)
        assert pushed == []


async def test_reports_of_the_present_drafter_count_towards_regret_and_late_ones_do_not(tuner: Tuner) -> None:
    def counted() -> float:
        return REGISTRY.get_sample_value("tlt_tuner_regret_tokens_total", {"group": "1"}) or 0.0

    newer = replace(KEY, drafter_version=DrafterVersion(2))
    tuner.report(newer, [WINDOW, replace(WINDOW, arm="chain-3", median_reward=30.0)])
    before = counted()
    tuner.report(newer, [WINDOW])
    assert counted() - before == pytest.approx((30.0 - 10.0) * WINDOW.elapsed_s)
    tuner.report(KEY, [WINDOW])
    assert counted() - before == pytest.approx((30.0 - 10.0) * WINDOW.elapsed_s)


async def test_metrics_have_so_many_series_whatever_engines_report(tuner: Tuner) -> None:
    def series() -> int:
        return sum(sample.name == "tlt_tuner_rounds_total" for each in REGISTRY.collect() for sample in each.samples)

    before = series()
    for pool in range(20):
        key = replace(KEY, model=f"model {pool}")
        tuner.report(key, [replace(WINDOW, group=10**6 + 200 * pool + place) for place in range(200)])
        tuner.report(key, [replace(WINDOW, group=10**9 + 200 * pool + place, rounds=0) for place in range(200)])
    assert series() - before <= MAX_SHOWN
