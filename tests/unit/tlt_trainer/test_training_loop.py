"""The life of a trainer, in virtual time: every call on the device takes a tenth of a second."""

import asyncio

import pytest
import torch

from tests.unit.tlt_trainer.virtual_trainer import CALL_S, Bench, running, until
from tlt_common.domain.ids import Epoch
from tlt_common.errors import WeightsError
from tlt_common.telemetry import metrics
from tlt_trainer.drafter.loss import Pack
from tlt_trainer.training_loop import BROKEN_BATCHES

pytestmark = pytest.mark.looptime


async def test_it_trains_under_a_lease_only(bench: Bench) -> None:
    bench.give_data()
    async with running(bench):
        await asyncio.sleep(50)
        assert bench.device.begun == {}
        await bench.start(1)
        await until(lambda: bench.device.micro_steps >= 5)
        assert bench.loop.progress.training
        assert bench.loop.progress.tokens > 0


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
    failed_at: list[int] = []

    def short(pack: Pack, *, steps: bool = True) -> float:
        sizes.append(pack.tokens)
        if pack.tokens > 128 and not failed_at:
            failed_at.append(len(sizes))
            raise torch.OutOfMemoryError
        return step(pack, steps=steps)

    bench.learner.micro_step = short  # type: ignore[method-assign]
    bench.give_data()
    counted = metrics.TRAINER_OUT_OF_MEMORY._value.get()
    async with running(bench):
        await bench.start(1)
        await asyncio.sleep(100)
        assert failed_at == [len(sizes)], "nothing is tried again under this lease"
        assert not bench.loop.progress.training
        assert metrics.TRAINER_OUT_OF_MEMORY._value.get() == counted + 1
        await bench.loop.preempt(Epoch(1))
        await bench.start(2)
        await until(lambda: len(sizes) >= failed_at[0] + 20)
    assert max(sizes[failed_at[0] :]) <= 128


async def test_steps_are_as_large_as_the_device_allows_also_where_other_processes_share_the_core(
    bench: Bench,
) -> None:
    step, sizes = bench.learner.micro_step, list[int]()

    def counted(pack: Pack, *, steps: bool = True) -> float:
        sizes.append(pack.tokens)
        return step(pack, steps=steps)

    bench.learner.micro_step = counted  # type: ignore[method-assign]
    bench.device.computed_s = bench.step_s / 8
    bench.device.call_s = 1.2 * bench.step_s  # with the time in which it waits for the core
    bench.give_data()
    async with running(bench):
        await bench.start(1)
        await until(lambda: len(sizes) >= 40)
    assert max(sizes[-20:]) > 128


async def test_without_data_it_waits_and_does_not_claim_to_train(bench: Bench) -> None:
    async with running(bench):
        await bench.start(1)
        await asyncio.sleep(30)
        assert not bench.loop.progress.training
        assert bench.loop.progress.training_s == 0.0
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
        assert progress.training_s == pytest.approx(CALL_S * (bench.device.micro_steps + bench.device.begun["take"]))


async def test_weights_are_kept_between_leases_and_saved_at_the_end_of_each(bench: Bench) -> None:
    bench.give_data()
    async with running(bench):
        for epoch in (1, 2):
            await bench.start(epoch)
            await until(lambda: bench.loop.progress.training)
            await asyncio.sleep(5)
            await bench.loop.preempt(Epoch(epoch))
            await asyncio.sleep(100 * CALL_S)  # a call per tensor
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
        await until(lambda: bench.loop.progress.held_out_top1 > 0.5)


async def test_a_broken_batch_is_skipped_and_broken_weights_end_the_trainer(bench: Bench) -> None:
    bench.give_data()
    bench.learner.micro_step = _broken  # type: ignore[assignment,method-assign]
    task = asyncio.create_task(bench.loop.run())
    await bench.start(1)
    with pytest.raises(WeightsError, match="not finite"):
        await task
    assert bench.device.micro_steps == BROKEN_BATCHES
    assert bench.learner.counters.steps == 0


def _nothing(_batch: object, *, steps: bool = True) -> float:
    return 1.0


def _broken(_batch: object, *, steps: bool = True) -> float:
    raise WeightsError("the loss is not finite")
