"""The life of a trainer, in virtual time: every call on the device takes a tenth of a second."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import torch

from tests.unit.tlt_trainer.inline import InlineDevice
from tests.unit.tlt_trainer.tiny import CPU, TinyPolicy, frames_of
from tlt_common.domain.ids import Epoch, PolicyVersion
from tlt_common.errors import StaleEpochError, WeightsError
from tlt_common.telemetry import metrics
from tlt_trainer.checkpoints import Checkpoints
from tlt_trainer.config import TrainerConfig
from tlt_trainer.drafter.loss import Pack
from tlt_trainer.examiner import Examiner
from tlt_trainer.feed import Feed
from tlt_trainer.frame_pool import FramePool
from tlt_trainer.learner import Learner, Snapshot
from tlt_trainer.publish_gate import PublishGate
from tlt_trainer.training_lease import TrainingLease
from tlt_trainer.training_loop import BROKEN_BATCHES, TrainingLoop

pytestmark = pytest.mark.looptime

CALL_S = 0.1
FIRST = PolicyVersion(0)


class Recorder(Checkpoints):
    """Keeps what is offered."""

    def __init__(self) -> None:
        super().__init__("memory://unused")
        self.offered: list[Snapshot] = []

    def offer(self, snapshot: Snapshot) -> None:
        self.offered.append(snapshot)


class Bench:
    """A loop with everything around it in reach."""

    def __init__(self, policy: TinyPolicy) -> None:
        config = TrainerConfig(
            socket=Path("unused"),
            model=policy.directory,
            drafter_dir="memory://unused",
            checkpoint_dir="memory://unused",
        )
        self.directory, self.frames = policy.directory, frames_of(policy, 80, seed=3)
        self.device = InlineDevice(CALL_S)
        self.learner = Learner(policy.form, CPU)
        self.lease = TrainingLease()
        self.pool = FramePool(budget_bytes=2**24)
        self.saved = Recorder()
        feed = Feed(self.pool, limit_tokens=256, step_s=0.5, seed="w")
        examiner = Examiner(
            self.learner, self.device, self.pool, tokens=500, batch_tokens=512, allowed=self.lease.holds
        )
        gate = PublishGate(config.publish, 0.1)
        self.loop = TrainingLoop(self.learner, self.device, self.lease, feed, examiner, self.saved, None, gate, config)

    def give_data(self) -> None:
        self.pool.add(self.frames)
        self.loop.notice_data()

    async def start(self, epoch: int, ttl_s: float = 1000.0) -> None:
        await self.loop.start(Epoch(epoch), ttl_s, self.directory, FIRST)


@pytest.fixture
def bench(policy: TinyPolicy) -> Bench:
    return Bench(policy)


@asynccontextmanager
async def running(bench: Bench) -> AsyncIterator[None]:
    task = asyncio.create_task(bench.loop.run())
    try:
        yield
        assert not task.done()
    finally:
        task.cancel()
        await asyncio.wait([task])


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(600):
        while not condition():  # noqa: ASYNC110 - of virtual time there is enough
            await asyncio.sleep(CALL_S / 4)


async def test_it_trains_under_a_lease_only(bench: Bench) -> None:
    bench.give_data()
    async with running(bench):
        await asyncio.sleep(50)
        assert bench.device.begun == {}
        await bench.start(1)
        await until(lambda: bench.device.micro_steps >= 5)
        assert bench.loop.progress.training
        assert bench.loop.progress.tokens > 0


async def test_a_preempt_waits_for_the_micro_step_that_runs_and_for_no_other(bench: Bench) -> None:
    bench.give_data()
    async with running(bench):
        await bench.start(1)
        await until(lambda: bench.device.micro_steps == 3)
        at_s = asyncio.get_running_loop().time()
        progress = await bench.loop.preempt(Epoch(1))
        assert bench.device.micro_steps == 3
        assert asyncio.get_running_loop().time() - at_s < 1.01 * CALL_S
        assert not progress.training
        await asyncio.sleep(100)
        assert bench.device.micro_steps == 3


async def test_a_lease_that_nobody_renews_ends_by_itself(bench: Bench) -> None:
    bench.give_data()
    async with running(bench):
        await bench.start(1, ttl_s=2.0)
        await asyncio.sleep(1.5)
        await bench.start(1, ttl_s=2.0)
        await asyncio.sleep(1.5)
        assert bench.loop.progress.training
        await asyncio.sleep(2.0)
        assert not bench.loop.progress.training
        steps = bench.device.micro_steps
        await asyncio.sleep(100)
        assert bench.device.micro_steps == steps


async def test_a_lease_whose_memory_is_short_ends_its_work_and_the_next_one_takes_smaller_batches(bench: Bench) -> None:
    step, sizes = bench.learner.micro_step, list[int]()

    def short(pack: Pack) -> float:
        sizes.append(pack.tokens)
        if len(sizes) == 3:
            raise torch.OutOfMemoryError
        return step(pack)

    bench.learner.micro_step = short  # type: ignore[method-assign]
    bench.give_data()
    counted = metrics.TRAINER_OUT_OF_MEMORY._value.get()
    async with running(bench):
        await bench.start(1)
        await asyncio.sleep(100)
        assert len(sizes) == 3, "nothing is tried again under this lease"
        assert not bench.loop.progress.training
        assert metrics.TRAINER_OUT_OF_MEMORY._value.get() == counted + 1
        await bench.loop.preempt(Epoch(1))
        await bench.start(2)
        await until(lambda: len(sizes) >= 9)
    assert max(sizes[3:]) <= 128 < max(sizes[:3])


async def test_older_epochs_are_refused(bench: Bench) -> None:
    async with running(bench):
        await bench.start(5)
        with pytest.raises(StaleEpochError):
            await bench.start(4)
        with pytest.raises(StaleEpochError):
            await bench.loop.preempt(Epoch(4))
        await bench.loop.preempt(Epoch(5))
        with pytest.raises(StaleEpochError):
            await bench.start(5)


async def test_without_data_it_waits_and_does_not_claim_to_train(bench: Bench) -> None:
    async with running(bench):
        await bench.start(1)
        await asyncio.sleep(30)
        assert not bench.loop.progress.training
        assert bench.lease.granted.is_set()
        bench.give_data()
        await until(lambda: bench.loop.progress.training)


async def test_training_time_is_that_of_micro_steps_only(bench: Bench) -> None:
    bench.give_data()
    async with running(bench):
        await bench.start(1)
        await until(lambda: bench.loop.progress.held_out_top1 > 0)  # scored, which takes device calls of its own
        progress = await bench.loop.preempt(Epoch(1))
        assert bench.device.begun["tally"] > 0
        assert progress.training_s == pytest.approx(CALL_S * bench.device.micro_steps)


async def test_waiting_for_data_adds_no_training_time(bench: Bench) -> None:
    async with running(bench):
        await bench.start(1)
        await asyncio.sleep(30)
        assert bench.loop.progress.training_s == 0.0


async def test_weights_are_kept_between_leases_and_saved_at_the_end_of_each(bench: Bench) -> None:
    bench.give_data()
    async with running(bench):
        for epoch in (1, 2):
            await bench.start(epoch)
            await until(lambda: bench.loop.progress.training)
            await asyncio.sleep(5)
            await bench.loop.preempt(Epoch(epoch))
            await asyncio.sleep(1)
            assert len(bench.saved.offered) == epoch
        first, second = (snapshot.counters.steps for snapshot in bench.saved.offered)
        assert 0 < first < second == bench.learner.counters.steps
        await bench.start(3)
        await bench.loop.preempt(Epoch(3))
        await asyncio.sleep(50)
        assert len(bench.saved.offered) == 2


async def test_long_leases_are_saved_in_between(bench: Bench) -> None:
    bench.give_data()
    bench.learner.micro_step = _nothing  # type: ignore[assignment,method-assign]
    async with running(bench):
        await bench.start(1)
        await asyncio.sleep(100)
        assert 2 <= len(bench.saved.offered) <= 3


async def test_it_scores_itself_on_what_it_does_not_train_on(bench: Bench) -> None:
    bench.give_data()
    assert bench.pool.held_out_tokens > 0
    async with running(bench):
        await bench.start(1)
        await until(lambda: bench.loop.progress.held_out_top1 > 0.6)


async def test_a_policy_that_cannot_be_read_gives_no_lease(bench: Bench, tmp_path: Path) -> None:
    bench.give_data()
    async with running(bench):
        with pytest.raises(WeightsError, match="embed_tokens"):
            await bench.loop.start(Epoch(1), 100.0, tmp_path, FIRST)
        await asyncio.sleep(10)
        assert not bench.loop.progress.training
        await bench.start(2)
        await until(lambda: bench.loop.progress.training)


async def test_a_new_policy_is_read_once(bench: Bench) -> None:
    async with running(bench):
        for _ in range(3):
            await bench.start(1)
        assert bench.device.begun["read_policy"] == 1
        await bench.loop.start(Epoch(1), 100.0, bench.directory, PolicyVersion(1))
        assert bench.device.begun["read_policy"] == 2


async def test_a_broken_batch_is_skipped_and_broken_weights_end_the_trainer(bench: Bench) -> None:
    bench.give_data()
    bench.learner.micro_step = _broken  # type: ignore[assignment,method-assign]
    task = asyncio.create_task(bench.loop.run())
    await bench.start(1)
    with pytest.raises(WeightsError, match="not finite"):
        await task
    assert bench.device.micro_steps == BROKEN_BATCHES
    assert bench.learner.counters.steps == 0


def _nothing(_batch: object) -> float:
    return 1.0


def _broken(_batch: object) -> float:
    raise WeightsError("the loss is not finite")
