"""Time is virtual."""

import asyncio

import pytest

from tlt_common.processes.core_waits import CoreWaits, ThreadTimes
from tlt_worker.lending.trainer_process import TrainerWatch

pytestmark = pytest.mark.looptime


class Trainer:
    def __init__(self, limit_s: float | None = 30.0) -> None:
        self.answers = False
        self.kills = 0
        self.waiting_share = 0.0
        """Share of its time in which its thread waits for a core."""
        self.watch = TrainerWatch(answers=lambda: self.answers, kill=self.kill, waits=self.waits, limit_s=limit_s)

    def waits(self) -> CoreWaits:
        now_s = asyncio.get_running_loop().time()
        return CoreWaits({1: ThreadTimes(ran_s=now_s, waited_s=self.waiting_share * now_s, runnable=True)})

    def kill(self) -> None:
        self.kills += 1

    async def after(self, seconds: float) -> int:
        """Let time pass; return how often it was killed."""
        await asyncio.sleep(seconds)
        return self.kills


async def test_a_trainer_that_no_longer_answers_is_killed_once() -> None:
    trainer = Trainer()
    watching = asyncio.create_task(trainer.watch.run())
    trainer.answers = True
    assert await trainer.after(100) == 0
    trainer.answers = False
    assert await trainer.after(29) == 0
    assert await trainer.after(2) == 1
    assert await trainer.after(1000) == 1  # the new process takes as long as it needs
    watching.cancel()


async def test_a_trainer_that_starts_is_not_judged() -> None:
    trainer = Trainer()
    watching = asyncio.create_task(trainer.watch.run())
    assert await trainer.after(1000) == 0
    trainer.answers = True
    await trainer.after(1)
    trainer.answers = False
    trainer.watch.restarted()
    assert await trainer.after(1000) == 0
    watching.cancel()


async def test_late_answers_are_answers() -> None:
    trainer = Trainer()
    watching = asyncio.create_task(trainer.watch.run())
    for _ in range(20):
        trainer.answers = True
        await trainer.after(1)
        trainer.answers = False
        assert await trainer.after(25) == 0
    watching.cancel()


async def test_without_a_limit_it_is_never_killed() -> None:
    trainer = Trainer(limit_s=None)
    watching = asyncio.create_task(trainer.watch.run())
    trainer.answers = True
    await trainer.after(1)
    trainer.answers = False
    assert await trainer.after(10_000) == 0
    watching.cancel()


async def test_a_trainer_that_gets_no_core_is_spared_until_it_gets_one() -> None:
    trainer = Trainer()
    watching = asyncio.create_task(trainer.watch.run())
    trainer.answers = True
    await trainer.after(1)
    trainer.answers, trainer.waiting_share = False, 0.9
    assert await trainer.after(1000) == 0
    trainer.waiting_share = 0.0  # and does not answer though it could
    assert await trainer.after(65) == 1
    watching.cancel()
