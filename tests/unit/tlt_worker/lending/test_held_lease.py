import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import pytest

from tests.fakes.trainer import FakeTrainer
from tlt_common.domain.fleet import Lease, Revocation, WorkerState
from tlt_common.domain.ids import DrafterVersion, Epoch, PolicyVersion
from tlt_common.errors import WeightsError
from tlt_worker.activity import Activity
from tlt_worker.lending.held_lease import HeldLease

pytestmark = pytest.mark.looptime

POLICY = Path("/policy")


@dataclass
class Device:
    """A device with a trainer, and everything that can be seen of it."""

    trainer: FakeTrainer
    activity: Activity = field(default_factory=Activity)
    states: list[tuple[float, WorkerState]] = field(default_factory=list)
    changes: int = 0
    kills: int = 0
    policy: PolicyVersion = PolicyVersion(7)
    drafter: DrafterVersion = DrafterVersion(0)
    spot: HeldLease = field(init=False)

    def __post_init__(self) -> None:
        self.spot = HeldLease(
            self.trainer,
            self.activity,
            policy=lambda: (POLICY, self.policy),
            drafter=lambda: self.drafter,
            accept_length=lambda: 1.5,
            kill=self._kill,
            on_change=self._change,
        )
        self.activity.on_transition(lambda _, new: self.states.append((_now_s(), new)))

    @property
    def state(self) -> WorkerState:
        return self.activity.state

    def is_in(self, state: WorkerState) -> bool:
        return self.state is state

    def _kill(self) -> None:
        self.kills += 1

    def _change(self) -> None:
        self.changes += 1


def _now_s() -> float:
    return round(asyncio.get_running_loop().time(), 3)


def lease(epoch: int, ttl_s: float = 60.0) -> Lease:
    return Lease(epoch=Epoch(epoch), ttl_s=ttl_s)


@asynccontextmanager
async def running(trainer: FakeTrainer) -> AsyncIterator[Device]:
    device = Device(trainer)
    async with asyncio.TaskGroup() as parts:
        lives = device.spot.run(), device.spot.watch(), device.spot.notice.run()
        tasks = [parts.create_task(part) for part in lives]
        await asyncio.sleep(0.001)  # the first look at the trainer
        yield device
        for task in tasks:
            task.cancel()


async def test_a_lease_starts_training_with_the_served_policy() -> None:
    async with running(FakeTrainer(start_s=0.5)) as device:
        device.spot.grant(lease(1))
        await asyncio.sleep(1)
        assert device.trainer.policies == [(POLICY, PolicyVersion(7))]
        assert device.trainer.accept_lengths == [1.5]
        assert [state for _, state in device.states] == [WorkerState.SWITCHING, WorkerState.TRAINING]
        assert device.spot.epoch == 1


async def test_the_trainer_is_told_of_weights_when_they_are_committed_and_when_it_begins_to_answer() -> None:
    async with running(FakeTrainer()) as device:
        await asyncio.sleep(0.1)
        assert device.trainer.prepared == [(POLICY, PolicyVersion(7))]
        device.policy = PolicyVersion(8)
        device.spot.notice.give()
        await asyncio.sleep(0.1)
        assert device.trainer.prepared[1:] == [(POLICY, PolicyVersion(8))]
        device.spot.lose_trainer()
        await asyncio.sleep(2.0)
        assert device.trainer.prepared[2:] == [(POLICY, PolicyVersion(8))]


@pytest.mark.parametrize("start_s", [0.0, 0.5])
async def test_a_lease_that_the_trainer_refuses_ends_and_later_ones_are_taken(start_s: float) -> None:
    trainer = FakeTrainer(start_s=start_s)
    trainer.refuses = WeightsError("/policy has no tensor lm_head.weight")
    async with running(trainer) as device:
        device.spot.grant(lease(1))
        await asyncio.sleep(1)
        assert device.spot.epoch == 0
        assert device.state is WorkerState.IDLE
        trainer.refuses = None
        await asyncio.sleep(1)
        device.spot.grant(lease(2))
        await asyncio.sleep(1)
        assert device.is_in(WorkerState.TRAINING)


async def test_a_trainer_that_keeps_failing_to_start_is_tried_less_and_less_often() -> None:
    trainer, clock, starts = FakeTrainer(), asyncio.get_running_loop(), list[float]()
    trainer.refuses = WeightsError("/policy has no tensor lm_head.weight")
    async with running(trainer) as device:
        for epoch in range(1, 3000):  # a coordinator that lends as soon as the worker is ready
            if device.spot.ready:
                device.spot.grant(lease(epoch))
                starts.append(clock.time())
            await asyncio.sleep(0.1)
        waits = [later - earlier for earlier, later in pairwise(starts)]
        assert len(starts) < 12
        assert waits[0] < 2 < waits[3] < waits[5] <= 80
        trainer.refuses = None
        await asyncio.sleep(80)
        device.spot.grant(lease(3001))
        await asyncio.sleep(1)
        assert device.is_in(WorkerState.TRAINING)


async def test_a_request_takes_the_device_back_at_once_and_the_state_is_switching_until_the_trainer_answers() -> None:
    async with running(FakeTrainer(preempt_s=0.25)) as device:
        device.spot.grant(lease(1))
        await asyncio.sleep(2)
        asked_s = _now_s()
        with device.activity.request():
            device.spot.make_way()
            assert device.spot.epoch == 0  # told to the coordinator without waiting for the trainer
            await asyncio.sleep(1)
            assert device.states[-2:] == [
                (asked_s, WorkerState.SWITCHING),
                (pytest.approx(asked_s + 0.25), WorkerState.ROLLOUT),
            ]
        assert device.trainer.calls == [("start", 1), ("preempt", 1)]


async def test_a_request_during_the_start_of_training_does_not_wait_for_it() -> None:
    async with running(FakeTrainer(start_s=30.0)) as device:
        device.spot.grant(lease(1))
        await asyncio.sleep(1)
        with device.activity.request():
            device.spot.make_way()
            await asyncio.sleep(0.01)
            assert device.is_in(WorkerState.ROLLOUT)
        assert device.trainer.calls == [("start", 1), ("preempt", 1)]


async def test_a_renewal_extends_the_lease_and_its_end_stops_training() -> None:
    async with running(FakeTrainer()) as device:
        device.spot.grant(lease(1, ttl_s=3))
        await asyncio.sleep(2)
        device.spot.grant(lease(1, ttl_s=3))
        await asyncio.sleep(2)
        assert device.is_in(WorkerState.TRAINING)
        await asyncio.sleep(2)
        assert device.is_in(WorkerState.IDLE)
        assert device.spot.epoch == 0
        assert device.trainer.calls == [("start", 1), ("start", 1), ("preempt", 1)]


async def test_a_device_of_a_worker_that_leaves_is_given_back_and_not_lent_again() -> None:
    async with running(FakeTrainer()) as device:
        device.spot.grant(lease(1))
        await asyncio.sleep(1)
        device.spot.retire()
        device.spot.grant(lease(2))
        await asyncio.sleep(1)
        assert device.spot.epoch == 0
        assert device.is_in(WorkerState.IDLE)
        assert device.trainer.calls == [("start", 1), ("preempt", 1)]


async def test_a_lease_that_was_given_back_is_not_revived_by_a_late_renewal() -> None:
    async with running(FakeTrainer()) as device:
        device.spot.grant(lease(4))
        await asyncio.sleep(1)
        device.spot.make_way()
        device.spot.grant(lease(4))
        device.spot.grant(lease(3))
        await asyncio.sleep(1)
        assert device.spot.epoch == 0
        assert device.is_in(WorkerState.IDLE)
        device.spot.grant(lease(5))
        await asyncio.sleep(1)
        assert device.is_in(WorkerState.TRAINING)


async def test_a_busy_device_declines_and_says_so() -> None:
    async with running(FakeTrainer()) as device:
        with device.activity.request():
            changes = device.changes
            device.spot.grant(lease(1))
            assert device.changes == changes + 1
            assert device.spot.epoch == 0
        await asyncio.sleep(1)
        assert device.trainer.calls == []


async def test_revoking_an_older_lease_changes_nothing() -> None:
    async with running(FakeTrainer()) as device:
        device.spot.grant(lease(2))
        await asyncio.sleep(1)
        device.spot.revoke(Revocation(epoch=Epoch(1)))
        await asyncio.sleep(1)
        assert device.spot.epoch == 2
        device.spot.revoke(Revocation(epoch=Epoch(2)))
        await asyncio.sleep(1)
        assert device.is_in(WorkerState.IDLE)


async def test_a_lease_that_follows_a_revocation_at_once_trains_under_the_new_epoch() -> None:
    async with running(FakeTrainer()) as device:
        device.spot.grant(lease(1))
        await asyncio.sleep(1)
        device.spot.revoke(Revocation(epoch=Epoch(1)))
        device.spot.grant(lease(2))
        await asyncio.sleep(1)
        assert device.spot.epoch == 2
        assert device.is_in(WorkerState.TRAINING)
        assert device.trainer.calls[-1] == ("start", 2)


async def test_a_trainer_that_does_not_stop_is_killed_and_the_device_is_free() -> None:
    async with running(FakeTrainer()) as device:
        device.spot.grant(lease(1))
        await asyncio.sleep(1)
        device.trainer.gone = True
        device.spot.make_way()
        await asyncio.sleep(0.01)
        assert device.kills == 1
        assert device.is_in(WorkerState.IDLE)
        assert device.spot.progress is None


async def test_a_trainer_that_dies_ends_its_lease() -> None:
    async with running(FakeTrainer()) as device:
        device.spot.grant(lease(1))
        await asyncio.sleep(1)
        device.trainer.gone = True
        device.spot.lose_trainer()
        assert (device.spot.epoch, device.state) == (0, WorkerState.IDLE)
        assert device.spot.unused is WorkerState.STARTING
        await asyncio.sleep(2)
        device.spot.grant(lease(2))
        assert device.spot.epoch == 0  # nobody is there to train
        device.trainer.gone = False
        await asyncio.sleep(2)
        device.spot.grant(lease(3))
        await asyncio.sleep(1)
        assert device.is_in(WorkerState.TRAINING)


async def test_a_trainer_without_data_leaves_the_device_a_bubble() -> None:
    async with running(FakeTrainer()) as device:
        device.trainer.has_data = False
        device.spot.grant(lease(1))
        await asyncio.sleep(3)
        assert (device.spot.epoch, device.state) == (1, WorkerState.IDLE)
        device.trainer.has_data = True
        await asyncio.sleep(2)
        assert device.is_in(WorkerState.TRAINING)


async def test_training_time_is_what_the_trainer_computed_up_to_the_moment_it_stopped() -> None:
    async with running(FakeTrainer(preempt_s=0.25)) as device:
        device.trainer.computes = 0.5
        device.spot.grant(lease(1))
        assert device.spot.training_age_s == 0.0
        await asyncio.sleep(10.5)
        assert device.spot.lent
        assert 0.0 < device.spot.training_age_s < 1.0
        assert device.spot.trained.seconds == pytest.approx(5.0, abs=0.01)  # as of the last look
        device.spot.make_way()
        assert device.spot.lent  # it is still computing
        await asyncio.sleep(1)
        assert not device.spot.lent
        assert device.spot.training_age_s == 0.0
        assert device.spot.trained.seconds == pytest.approx(0.5 * 10.75, abs=0.01)


async def test_training_time_goes_on_increasing_when_the_trainer_is_replaced() -> None:
    async with running(FakeTrainer()) as device:
        device.spot.grant(lease(1))
        await asyncio.sleep(5.5)
        device.trainer.die()
        device.spot.lose_trainer()
        await asyncio.sleep(1)
        device.trainer.gone = False
        await asyncio.sleep(2)
        device.spot.grant(lease(2))
        await asyncio.sleep(3.5)
        assert device.spot.trained.seconds == pytest.approx(5.0 + 3.0, abs=1.01)
        assert device.spot.trained.seconds >= 5.0 + 2.0
