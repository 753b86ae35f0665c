"""A lease may end whatever the trainer does: it stops within one call on the device."""

import asyncio
import shutil
from pathlib import Path

import pytest

from tests.unit.tlt_trainer.virtual_trainer import CALL_S, FIRST, Bench, running, until
from tlt_common.domain.ids import Epoch, PolicyVersion
from tlt_common.errors import StaleEpochError, WeightsError
from tlt_trainer.lease import policy_reading
from tlt_trainer.lease.learner_turn import Occupation

pytestmark = pytest.mark.looptime


async def until_in_memory() -> None:
    reading = [task for task in asyncio.all_tasks() if task.get_name() == "policy-ahead"]
    await asyncio.wait(reading)


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


@pytest.mark.parametrize("doing", [Occupation.SCORING, Occupation.SAVING])
async def test_a_preempt_waits_for_one_call_of_whatever_is_done(bench: Bench, doing: Occupation) -> None:
    bench.give_data()
    async with running(bench):
        await bench.start(1)
        await until(lambda: bench.turn.doing is doing)
        at_s = asyncio.get_running_loop().time()
        await bench.loop.preempt(Epoch(1))
        assert asyncio.get_running_loop().time() - at_s < 1.01 * CALL_S
        await asyncio.sleep(100 * CALL_S)
        assert bench.turn.doing is Occupation.NOTHING


async def test_a_lease_that_ends_while_the_policy_is_read_does_not_train_and_the_next_one_does(bench: Bench) -> None:
    bench.give_data()
    async with running(bench):
        starting = asyncio.create_task(bench.start(1))
        await until(lambda: bench.device.begun.get("allocated", 0) == 1)
        await bench.loop.preempt(Epoch(1))
        with pytest.raises(StaleEpochError, match="policy"):
            await starting
        assert bench.device.begun.get("allocated") == 1  # embedding, but no head
        await bench.start(2)
        await until(lambda: bench.device.micro_steps > 0)


async def test_training_stops_while_another_policy_is_read(bench: Bench) -> None:
    bench.give_data()
    async with running(bench):
        await bench.start(1)
        await until(lambda: bench.device.micro_steps > 3)
        starting = asyncio.create_task(bench.loop.start(Epoch(1), 1000.0, bench.directory, PolicyVersion(1)))
        await until(lambda: bench.turn.doing is Occupation.READING_POLICY)
        steps = bench.device.micro_steps
        while bench.turn.doing is Occupation.READING_POLICY:
            assert bench.device.micro_steps == steps
            await asyncio.sleep(CALL_S / 4)
        await starting
        await until(lambda: bench.device.micro_steps > steps)


async def test_a_new_lease_does_not_wait_for_the_checkpoint_of_the_last_one(bench: Bench) -> None:
    bench.give_data()
    async with running(bench):
        await bench.start(1)
        await until(lambda: bench.learner.counters.steps > 3)
        await bench.loop.preempt(Epoch(1))
        await until(lambda: bench.turn.doing is Occupation.SAVING)
        at_s = asyncio.get_running_loop().time()
        await bench.start(2)
        await until(lambda: bench.turn.doing is Occupation.TRAINING)
        assert asyncio.get_running_loop().time() - at_s < 3 * CALL_S
        assert not bench.saved.offered
        await bench.loop.preempt(Epoch(2))
        await until(lambda: len(bench.saved.offered) == 1)


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
        once = bench.device.begun["fill"]
        assert bench.device.begun["allocated"] == 2  # embedding and head
        await bench.loop.start(Epoch(1), 100.0, bench.directory, PolicyVersion(1))
        assert bench.device.begun["fill"] == 2 * once


async def test_a_lease_finds_in_memory_what_was_read_when_its_policy_was_committed(
    bench: Bench, tmp_path: Path
) -> None:
    bench.give_data()
    copy = Path(shutil.copytree(bench.directory, tmp_path / "policy"))
    async with running(bench):
        await bench.start(1)
        await bench.loop.preempt(Epoch(1))
        bench.loop.prepare(copy, PolicyVersion(1))
        bench.loop.prepare(copy, PolicyVersion(1))  # repeated
        await until_in_memory()
        shutil.rmtree(copy)
        await bench.loop.start(Epoch(2), 1000.0, copy, PolicyVersion(1))
        steps = bench.device.micro_steps
        await until(lambda: bench.device.micro_steps > steps)


async def test_weights_that_are_too_large_to_hold_are_read_again_under_the_lease(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(policy_reading, "AHEAD_BYTES", 0)
    bench.give_data()
    copy = Path(shutil.copytree(bench.directory, tmp_path / "policy"))
    async with running(bench):
        bench.loop.prepare(copy, FIRST)
        await until_in_memory()
        shutil.rmtree(copy)
        with pytest.raises(WeightsError, match="embed_tokens"):
            await bench.loop.start(Epoch(1), 1000.0, copy, FIRST)
        await bench.start(2)
        await until(lambda: bench.device.micro_steps > 0)


async def test_what_was_read_of_another_policy_is_not_taken(bench: Bench, tmp_path: Path) -> None:
    bench.give_data()
    async with running(bench):
        bench.loop.prepare(bench.directory, PolicyVersion(5))
        await until_in_memory()
        with pytest.raises(WeightsError, match="embed_tokens"):
            await bench.loop.start(Epoch(1), 1000.0, tmp_path, FIRST)


async def test_a_policy_that_could_not_be_read_ahead_is_read_by_the_lease(bench: Bench, tmp_path: Path) -> None:
    bench.give_data()
    later = tmp_path / "later"
    async with running(bench):
        bench.loop.prepare(later, FIRST)
        await until_in_memory()
        shutil.copytree(bench.directory, later)
        await bench.loop.start(Epoch(1), 1000.0, later, FIRST)
        await until(lambda: bench.device.micro_steps > 0)
