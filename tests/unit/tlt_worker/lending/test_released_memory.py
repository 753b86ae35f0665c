"""An RL trainer that shares the devices takes them, the spot trainer's included, and gives all of it back."""

import asyncio
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from tests.fakes.engine import FakeEngine
from tests.fakes.trainer import FakeTrainer
from tlt_common.changes import Changes
from tlt_common.domain.fleet import MEMORY_TAGS, WorkerState
from tlt_common.errors import EngineError, InvalidRequestError
from tlt_worker.activity import Activity
from tlt_worker.lending.released_memory import ReleasedMemory

pytestmark = pytest.mark.looptime


@dataclass
class Device:
    engine: FakeEngine = field(default_factory=FakeEngine)
    trainer: FakeTrainer = field(default_factory=FakeTrainer)
    activity: Activity = field(default_factory=Activity)
    changes: Changes = field(default_factory=Changes)
    ways_made: int = 0
    memory: ReleasedMemory = field(init=False)

    def is_in(self, state: WorkerState) -> bool:
        return self.activity.state is state

    def make_way(self) -> None:
        self.ways_made += 1


@asynccontextmanager
async def running(*, releasable: bool = True) -> AsyncIterator[Device]:
    device = Device()
    changes = device.changes
    device.memory = ReleasedMemory(
        device.engine, device.activity, changes, device.make_way, device.trainer, releasable=releasable
    )
    tasks = [asyncio.create_task(part) for part in (changes.run(), device.memory.run())]
    yield device
    for task in tasks:
        task.cancel()


async def test_all_is_released_and_resumed() -> None:
    async with running() as device:
        for _ in range(2):  # repeated calls change nothing
            await device.memory.release(())
            assert device.engine.released == set(MEMORY_TAGS)
            assert device.is_in(WorkerState.TRAINER)
            assert device.activity.busy
            assert device.trainer.suspended
        assert device.ways_made == 1
        for _ in range(2):
            await device.memory.resume(())
            assert device.engine.released == set()
            assert device.is_in(WorkerState.IDLE)
            assert not device.trainer.suspended


async def test_weights_come_back_first_and_the_device_only_with_the_last_part() -> None:
    """As verl does: weights are resumed, updated, and then the KV cache."""
    async with running() as device:
        await device.memory.release(())
        with pytest.raises(InvalidRequestError, match="weights is released"):
            device.memory.require_weights()
        await device.memory.resume(["weights"])
        device.memory.require_weights()
        assert device.is_in(WorkerState.TRAINER)
        assert device.trainer.suspended
        await device.memory.resume(["kv_cache", "cuda_graph"])
        assert device.is_in(WorkerState.IDLE)


async def test_an_engine_that_does_not_release_keeps_everything() -> None:
    async with running() as device:
        device.engine.release_error = EngineError("no")
        with pytest.raises(EngineError):
            await device.memory.release(())
        assert device.memory.tags == frozenset()
        assert device.is_in(WorkerState.IDLE)
        assert not device.trainer.suspended


async def test_what_cannot_be_released_is_refused_by_name() -> None:
    async with running(releasable=False) as device:
        with pytest.raises(InvalidRequestError, match=r"engine\.releasable"):
            await device.memory.release(())
    async with running() as device:
        with pytest.raises(InvalidRequestError, match="'disk'; accepted: weights, kv_cache, cuda_graph"):
            await device.memory.release(["disk"])
        with pytest.raises(InvalidRequestError, match="accepted"):
            await device.memory.resume(["disk"])
        with device.activity.request(), pytest.raises(InvalidRequestError, match="1 requests are running"):
            await device.memory.release(())
        assert device.engine.released == set()


async def test_memory_comes_back_by_itself_if_the_trainer_has_died() -> None:
    async with running() as device:
        await device.memory.release((), limit_s=60)
        assert device.memory.left_s == 60
        await asyncio.sleep(50)
        await device.memory.release((), limit_s=60)  # it lives
        await asyncio.sleep(50)
        assert device.engine.released == set(MEMORY_TAGS)
        assert device.memory.left_s == pytest.approx(10)
        await asyncio.sleep(11)
        assert device.engine.released == set()
        assert device.is_in(WorkerState.IDLE)
        assert device.memory.left_s == 0


async def test_without_a_limit_it_stays_released() -> None:
    async with running() as device:
        await device.memory.release((), limit_s=60)
        await device.memory.release(())
        await asyncio.sleep(100_000)
        assert device.is_in(WorkerState.TRAINER)


async def test_a_limit_is_over_with_its_release() -> None:
    async with running() as device:
        await device.memory.release((), limit_s=60)
        await device.memory.resume(())
        await asyncio.sleep(30)
        await device.memory.release(())
        await asyncio.sleep(60)
        assert device.is_in(WorkerState.TRAINER)


async def test_a_device_that_has_no_room_at_the_limit_is_tried_again() -> None:
    async with running() as device:
        await device.memory.release((), limit_s=60)
        device.engine.resume_error = EngineError("out of memory")
        await asyncio.sleep(65)
        assert device.is_in(WorkerState.TRAINER)
        device.engine.resume_error = None
        await asyncio.sleep(10)
        assert device.is_in(WorkerState.IDLE)


@pytest.mark.parametrize("limit_s", [0.0, -1.0, math.nan, math.inf])
async def test_a_limit_that_is_none_is_refused(limit_s: float) -> None:
    async with running() as device:
        with pytest.raises(InvalidRequestError, match=r"limit_s is .*; accepted: above 0 to 604800"):
            await device.memory.release((), limit_s=limit_s)
        assert device.engine.released == set()


async def test_a_request_that_came_before_its_turn_keeps_the_device() -> None:
    async with running() as device:
        changing = asyncio.Event()
        before = asyncio.create_task(device.changes.do(changing.wait))
        releasing = asyncio.create_task(device.memory.release(()))
        await asyncio.sleep(0)
        with device.activity.request():
            changing.set()
            with pytest.raises(InvalidRequestError, match="1 requests are running"):
                await releasing
        await before
        assert device.engine.released == set()
