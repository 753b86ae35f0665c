"""Sharing: only from the newest drafter, only when it is better, and whoever is overtaken loses nothing."""

import asyncio
import errno
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from fsspec.implementations.local import LocalFileSystem
from safetensors.torch import load_file

from tests.unit.tlt_trainer.fleet_trainer import SCORE, Trainer
from tests.unit.tlt_trainer.inline import FakeFleet
from tests.unit.tlt_trainer.tiny import TinyPolicy, frames_of
from tlt_common.domain.fleet import DrafterWish
from tlt_common.domain.ids import DrafterVersion, PolicyVersion
from tlt_common.drafter.meta import META_FILE, WEIGHTS_FILE
from tlt_trainer.drafter.score import Score
from tlt_trainer.sharing.drafter_sync import GONE_AFTER_S


async def test_what_one_publishes_another_follows(one: Trainer, two: Trainer) -> None:
    one.train(1, 3)
    assert await one.sharing.publish(SCORE, None)
    assert one.learner.counters.base_version == 1
    assert await two.sharing.follow()
    assert two.learner.counters.base_version == 1
    assert two.learner.counters.tokens == one.learner.counters.tokens
    for name, tensor in two.learner.weights().items():
        assert torch.equal(tensor, one.learner.weights()[name].bfloat16().float())
    assert not await two.sharing.follow()


async def test_a_trainer_asks_only_for_a_drafter_that_is_not_its_own(
    one: Trainer, two: Trainer, fleet: FakeFleet
) -> None:
    assert not await two.sharing.follow(DrafterVersion(0))
    one.train(1, 3)
    assert await one.sharing.publish(SCORE, None)
    fleet.asked = 0
    assert not await one.sharing.follow(DrafterVersion(1))
    assert fleet.asked == 0
    assert await two.sharing.follow(DrafterVersion(1))
    assert not await two.sharing.follow(None)
    assert fleet.asked == 2


async def test_who_was_overtaken_keeps_the_work_of_both_and_publishes_next_time(
    one: Trainer, two: Trainer, fleet: FakeFleet, policy: TinyPolicy, tmp_path: Path
) -> None:
    start = two.learner.weights()
    one.train(1, 8)
    two.train(2, 8)
    alone = two.learner.weights()
    assert await one.sharing.publish(SCORE, None)
    fleet.hides_newest = True
    assert not await two.sharing.publish(SCORE, None)
    assert fleet.refused == 1
    assert not list((tmp_path / "two").iterdir())
    newest = two.learner.base()
    assert newest is not None
    share = 0.5  # both trained on as much
    own_share = two.learner.counters.own_tokens / two.learner.counters.tokens
    assert own_share == pytest.approx(share, abs=0.05)
    for name, tensor in two.learner.weights().items():
        progress = alone[name] - start[name]
        expected = newest[name] + own_share * progress
        torch.testing.assert_close(tensor, expected, rtol=1e-5, atol=1e-6)
    assert two.learner.counters.own_steps == 8
    assert two.learner.counters.steps == 16
    assert await two.sharing.publish(SCORE, None)
    assert fleet.drafter is not None
    assert fleet.drafter.version == 2


async def test_who_was_overtaken_goes_on_from_what_is_best_and_publishes_it_at_once(
    one: Trainer, two: Trainer, fleet: FakeFleet, policy: TinyPolicy
) -> None:
    one.train(1, 1)
    two.train(2, 40)
    two.pool.add(frames_of(policy, 200, seed=9))
    assert two.pool.held_out_tokens > 0
    assert await one.sharing.publish(SCORE, None)
    before = await two.evaluator.scores(None)
    newest = one.learner.weights()
    fleet.hides_newest = True
    assert await two.sharing.publish(SCORE, None)
    after = await two.evaluator.scores(None, newest)
    assert fleet.refused == 1
    assert before is not None
    assert after is not None
    assert after[0].accept_length >= before[0].accept_length
    assert after[0].accept_length > after[1].accept_length


async def test_a_coordinator_that_forgot_everything_gets_the_own_drafter(one: Trainer, fleet: FakeFleet) -> None:
    one.train(1, 3)
    assert await one.sharing.publish(SCORE, None)
    one.train(1, 2)
    fleet.drafter = None
    assert not await one.sharing.publish(SCORE, None)
    assert one.learner.counters.own_steps == 2
    assert await one.sharing.publish(SCORE, None)
    assert fleet.drafter is not None


async def found_gone(trainer: Trainer) -> None:
    """Let the trainer look at the fleet's drafter until it counts as gone."""
    for _ in range(3):
        assert not await trainer.sharing.follow()
        await asyncio.sleep(GONE_AFTER_S / 2)


@pytest.mark.looptime
async def test_a_drafter_that_stays_missing_is_replaced(one: Trainer, fleet: FakeFleet, tmp_path: Path) -> None:
    one.train(1, 3)
    weights = one.learner.weights()
    fleet.drafter = DrafterWish(version=DrafterVersion(7), uri=str(tmp_path / "gone"))
    assert not await one.sharing.follow()
    assert not await one.sharing.publish(SCORE, None)
    await found_gone(one)
    assert all(torch.equal(weights[name], tensor) for name, tensor in one.learner.weights().items())
    assert one.learner.base() is None
    assert await one.sharing.publish(SCORE, None)
    assert one.learner.counters.base_version == 8


@pytest.mark.looptime
async def test_a_drafter_that_cannot_be_read_now_is_not_gone(
    one: Trainer, two: Trainer, fleet: FakeFleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    one.train(1, 3)
    assert await one.sharing.publish(SCORE, None)

    def refuse(*_args: object, **_kwargs: object) -> None:
        raise PermissionError(errno.EACCES, "no access for now")

    with monkeypatch.context() as broken:
        broken.setattr(LocalFileSystem, "cat_file", refuse)
        broken.setattr(LocalFileSystem, "info", refuse)
        for _ in range(5):
            assert not await two.sharing.follow()
            assert not await two.sharing.publish(SCORE, None)
            await asyncio.sleep(GONE_AFTER_S)
    assert two.learner.counters.base_version == 0
    assert fleet.drafter is not None
    assert fleet.drafter.version == 1
    assert await two.sharing.follow()
    assert two.learner.counters.base_version == 1


@pytest.mark.looptime
async def test_a_drafter_that_was_given_up_is_adopted_once_it_is_readable(
    one: Trainer, two: Trainer, fleet: FakeFleet
) -> None:
    one.train(1, 3)
    assert await one.sharing.publish(SCORE, None)
    assert fleet.drafter is not None
    published = Path(fleet.drafter.uri)
    away = published.with_name("away")
    published.rename(away)  # noqa: ASYNC240 - virtual time
    await found_gone(two)
    assert (two.learner.counters.base_version, two.learner.base()) == (1, None)
    away.rename(published)
    assert await two.sharing.follow()
    assert two.learner.base() is not None


async def test_the_score_of_the_base_on_the_same_frames_is_published(one: Trainer, fleet: FakeFleet) -> None:
    one.train(1, 3)
    own = Score(hits=(0.8,), accepted=(0.8,), policy_version=PolicyVersion(5))
    assert await one.sharing.publish(own, Score(hits=(0.7,), accepted=(0.7,)))
    (publication,) = fleet.publications
    assert (publication.held_out_top1, publication.base_top1, publication.policy_version) == (0.8, 0.7, 5)


async def test_a_drafter_the_coordinator_refuses_is_removed_and_training_goes_on(
    one: Trainer, fleet: FakeFleet, tmp_path: Path
) -> None:
    one.train(1, 3)
    fleet.least_top1 = 0.9
    assert not await one.sharing.publish(SCORE, None)
    assert not list((tmp_path / "one").iterdir())
    assert one.learner.counters.own_steps == 3
    fleet.least_top1 = 0.5
    assert await one.sharing.publish(SCORE, None)


async def test_weights_that_are_not_finite_are_never_published(one: Trainer, fleet: FakeFleet, tmp_path: Path) -> None:
    one.train(1, 3)
    snapshot = one.learner.snapshot()
    name, broken = next(iter(snapshot.average.items()))
    broken.view(-1)[0] = float("nan")
    one.learner.restore(replace(snapshot, average={**snapshot.average, name: broken}))
    assert not await one.sharing.publish(SCORE, None)
    assert fleet.drafter is None
    assert not (tmp_path / "one").exists()


async def test_a_coordinator_that_is_away_lets_nothing_pile_up_and_the_fleets_drafter_stays(
    one: Trainer, fleet: FakeFleet, tmp_path: Path
) -> None:
    one.train(1, 1)
    assert await one.sharing.publish(SCORE, None)
    fleet.away = True
    for _ in range(5):
        one.train(1, 1)
        assert not await one.sharing.publish(SCORE, None)
    assert fleet.drafter is not None
    assert [path.name for path in (tmp_path / "one").iterdir()] == [Path(fleet.drafter.uri).name]


@pytest.mark.parametrize("is_pickled", [False, True])
async def test_a_drafter_that_says_nothing_of_its_training_is_continued_from(
    one: Trainer, two: Trainer, fleet: FakeFleet, is_pickled: bool
) -> None:
    one.train(1, 3)
    assert await one.sharing.publish(SCORE, None)
    assert fleet.drafter is not None
    (Path(fleet.drafter.uri) / META_FILE).unlink()
    if is_pickled:  # as EAGLE's authors publish it
        weights = Path(fleet.drafter.uri) / WEIGHTS_FILE
        torch.save(load_file(weights), weights.with_name("pytorch_model.bin"))
        weights.unlink()
    assert await two.sharing.follow()
    assert (two.learner.counters.base_version, two.learner.counters.steps) == (1, 0)
    for name, tensor in two.learner.weights().items():
        assert torch.equal(tensor, one.learner.weights()[name].bfloat16().float())


async def test_a_coordinator_that_is_away_stops_nothing(one: Trainer, fleet: FakeFleet) -> None:
    one.train(1, 3)
    fleet.away = True
    assert not await one.sharing.follow()
    assert not await one.sharing.publish(SCORE, None)
    assert one.learner.counters.own_steps == 3
    fleet.away = False
    assert await one.sharing.publish(SCORE, None)


async def test_few_own_drafters_are_kept_and_the_newest_always(one: Trainer, fleet: FakeFleet, tmp_path: Path) -> None:
    for _ in range(5):
        one.train(1, 1)
        assert await one.sharing.publish(SCORE, None)
    held = sorted(path.name for path in (tmp_path / "one").iterdir())
    assert len(held) == 2
    assert fleet.drafter is not None
    assert Path(fleet.drafter.uri).name == held[-1]
