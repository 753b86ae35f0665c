"""Drafters are published and followed while training goes on."""

import asyncio

from tests.unit.tlt_trainer.fleet_trainer import SCORE, Trainer
from tests.unit.tlt_trainer.inline import FakeFleet
from tlt_trainer.learner_turn import Occupation


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
