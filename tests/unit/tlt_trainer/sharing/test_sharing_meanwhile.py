"""Drafters are published and followed while training goes on."""

import asyncio

import pytest
import torch

from tests.unit.tlt_trainer.fleet_trainer import SCORE, Trainer
from tests.unit.tlt_trainer.inline import FakeFleet
from tests.unit.tlt_trainer.tiny import TinyPolicy, frames_of
from tlt_common.telemetry import metrics
from tlt_trainer.lease.learner_turn import Occupation


async def test_training_goes_on_while_the_fleet_is_asked_and_what_it_learns_counts_as_own(
    one: Trainer, fleet: FakeFleet
) -> None:
    one.train(1, 3)
    fleet.accepts.clear()
    publishing = asyncio.create_task(one.sharing.publish(SCORE, None))
    async with asyncio.timeout(60):
        while not fleet.offered:  # noqa: ASYNC110 - files are written by a thread
            await asyncio.sleep(0.001)
    assert one.turn.doing is Occupation.NOTHING
    one.train(1, 2)
    fleet.accepts.set()
    assert await publishing
    assert one.learner.counters.own_steps == 2


async def test_an_offer_whose_score_is_of_other_weights_is_dropped(
    one: Trainer, two: Trainer, fleet: FakeFleet
) -> None:
    one.train(1, 3)
    two.train(2, 3)
    two.sharing.offer(SCORE, None)
    assert await one.sharing.publish(SCORE, None)
    assert await two.sharing.follow()
    running = asyncio.create_task(two.sharing.run())
    async with asyncio.timeout(60):
        while fleet.asked < 3:  # noqa: ASYNC110 - what it asks is what it does
            await asyncio.sleep(0.001)
        two.sharing.offer(SCORE, None)
        while len(fleet.publications) < 2:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
    running.cancel()
    assert [publication.base for publication in fleet.publications] == [0, 1]


@pytest.mark.parametrize("call", ["candidate", "tally", "follow"])
async def test_short_memory_during_a_merge_gives_up_memory_and_the_merge_is_made_up_for(
    one: Trainer, two: Trainer, policy: TinyPolicy, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    one.train(1, 3)
    assert await one.sharing.publish(SCORE, None)
    two.train(2, 3)
    two.pool.add(frames_of(policy, 200, seed=9))

    def fail(*_args: object, **_kwargs: object) -> None:
        raise torch.OutOfMemoryError("out of memory")

    counted, limit = metrics.TRAINER_OUT_OF_MEMORY._value.get(), two.feed.tokens
    with monkeypatch.context() as short:
        short.setattr(two.learner, call, fail)
        assert not await two.sharing.follow()
        assert not await two.sharing.publish(SCORE, None)
    assert two.learner.counters.base_version == 0
    assert two.learner.counters.own_steps == 3
    assert metrics.TRAINER_OUT_OF_MEMORY._value.get() == counted + 2
    assert two.feed.shrink() <= max(64, limit)
    assert await two.sharing.follow()
    assert two.learner.counters.base_version == 1
