"""A trainer with nothing left to learn gives the device back, and gets it again once there is news."""

import asyncio

import pytest

from tests.fakes.trainer import FakeTrainer
from tests.unit.tlt_worker.lending.test_held_lease import lease, running
from tlt_common.domain.fleet import WorkerState
from tlt_common.domain.ids import DrafterVersion, PolicyVersion
from tlt_common.telemetry import metrics

pytestmark = pytest.mark.looptime


async def test_a_resting_trainer_gives_the_device_back_and_declines_leases() -> None:
    ended = metrics.LEASES_ENDED.labels(reason="resting")
    before = ended._value.get()
    async with running(FakeTrainer()) as device:
        device.spot.grant(lease(1))
        await asyncio.sleep(3)
        assert device.is_in(WorkerState.TRAINING)
        assert not device.spot.resting
        assert device.spot.unused is WorkerState.IDLE
        device.trainer.resting = True
        await asyncio.sleep(3)
        assert device.is_in(WorkerState.IDLE)
        assert device.trainer.calls == [("start", 1), ("preempt", 1)]
        assert device.spot.resting
        assert device.spot.unused is WorkerState.RESTING
        device.spot.grant(lease(2))
        assert device.spot.epoch == 0
        await asyncio.sleep(3)
        assert len(device.trainer.calls) == 2
    assert ended._value.get() == before + 1


@pytest.mark.parametrize("news", [{"policy": PolicyVersion(8)}, {"drafter": DrafterVersion(1)}])
async def test_a_policy_or_drafter_that_it_does_not_know_ends_the_rest(news: dict[str, int]) -> None:
    async with running(FakeTrainer()) as device:
        device.spot.grant(lease(1))
        await asyncio.sleep(3)
        device.trainer.resting = True
        await asyncio.sleep(3)
        for name, value in news.items():
            setattr(device, name, value)
        assert not device.spot.resting
        device.spot.grant(lease(2))
        await asyncio.sleep(0.5)
        assert device.trainer.calls[-1] == ("start", 2)


async def test_unseen_frames_end_the_rest_as_soon_as_the_trainer_says_so() -> None:
    async with running(FakeTrainer()) as device:
        device.spot.grant(lease(1))
        await asyncio.sleep(3)
        device.trainer.resting = True
        await asyncio.sleep(3)
        changes = device.changes
        device.trainer.resting = False
        await asyncio.sleep(2)
        assert not device.spot.resting
        assert device.changes > changes  # which tells the coordinator
