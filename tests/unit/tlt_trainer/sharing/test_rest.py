"""A trainer that has nothing left to learn computes nothing, in virtual time."""

import asyncio
from dataclasses import replace

import pytest

from tests.unit.tlt_trainer.tiny import TinyPolicy, frames_of
from tests.unit.tlt_trainer.virtual_trainer import Bench, running, until
from tlt_common.domain.ids import Epoch, PolicyVersion
from tlt_common.telemetry import metrics
from tlt_trainer.drafter.loss import Pack

pytestmark = pytest.mark.looptime


def learns_nothing(bench: Bench) -> None:
    """Let steps count tokens and change no weight."""

    def micro_step(pack: Pack, *, steps: bool = True) -> float:
        counters = bench.learner.counters
        bench.learner.counters = replace(counters, tokens=counters.tokens + pack.tokens)
        return 1.0

    bench.learner.micro_step = micro_step  # type: ignore[method-assign]


async def until_it_rests(bench: Bench) -> None:
    learns_nothing(bench)
    bench.give_data()
    await bench.start(1)
    await until(lambda: bench.loop.progress.resting)


async def test_a_plateau_frees_the_device(bench: Bench) -> None:
    rests = metrics.TRAINER_RESTS._value.get()
    async with running(bench):
        await until_it_rests(bench)
        steps = bench.device.micro_steps
        await asyncio.sleep(60)
        assert not bench.loop.progress.training
        assert bench.device.micro_steps == steps
        assert bench.rest.begun.is_set()  # somebody looks for frames
        assert metrics.TRAINER_RESTING._value.get() == 1
        assert metrics.TRAINER_RESTS._value.get() == rests + 1
        assert (await bench.loop.preempt(Epoch(1))).resting
        await bench.start(2)  # as a worker that knows nothing of rests would
        await asyncio.sleep(30)
        assert bench.device.micro_steps == steps


async def test_a_new_policy_ends_the_rest(bench: Bench) -> None:
    resumed = metrics.TRAINER_RESUMED.labels(reason="policy")
    before = resumed._value.get()
    async with running(bench):
        await until_it_rests(bench)
        await bench.loop.preempt(Epoch(1))
        steps = bench.device.micro_steps
        await bench.loop.start(Epoch(2), 1000.0, bench.directory, PolicyVersion(1))
        await until(lambda: bench.device.micro_steps > steps)
        assert bench.loop.progress.policy_version == 1
        assert not bench.loop.progress.resting
        assert not bench.rest.begun.is_set()
    assert resumed._value.get() == before + 1


async def test_unseen_frames_end_the_rest_before_a_lease_does(bench: Bench, policy: TinyPolicy) -> None:
    async with running(bench):
        await until_it_rests(bench)
        await bench.loop.preempt(Epoch(1))
        bench.pool.add(frames_of(policy, 20, seed=11))
        assert bench.loop.progress.resting  # too few
        bench.pool.add(frames_of(policy, 140, seed=12))
        assert not bench.loop.progress.resting
        steps = bench.device.micro_steps
        await bench.start(2)
        await until(lambda: bench.device.micro_steps > steps)


async def test_a_learner_that_still_learns_does_not_rest(bench: Bench) -> None:
    bench.give_data()
    async with running(bench):
        await bench.start(1)
        await until(lambda: bench.learner.counters.steps > 40)
        assert not bench.loop.progress.resting
