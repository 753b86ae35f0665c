"""A spot trainer of EAGLE-3 drafters: it chooses draft tokens by what the policy says, and shares them."""

from pathlib import Path

import pytest
import torch

from tests.unit.tlt_trainer.fleet_trainer import SCORE, Trainer
from tests.unit.tlt_trainer.inline import FakeFleet
from tests.unit.tlt_trainer.tiny import CPU, DRAFT_TOKENS, TinyPolicy, frames_of
from tests.unit.tlt_trainer.virtual_trainer import Bench, running, until
from tlt_common.domain.ids import Epoch
from tlt_common.drafter.tensors import MAP
from tlt_trainer.data.frame import TrainingFrame
from tlt_trainer.data.pack import collate
from tlt_trainer.drafter.loss import Pack
from tlt_trainer.drafter.vocabulary import tokens_of
from tlt_trainer.lease.draft_tokens import COUNTED_TOKENS

pytestmark = pytest.mark.looptime

TOKENS, OTHERS = torch.arange(DRAFT_TOKENS), torch.arange(48 - DRAFT_TOKENS, 48)


@pytest.fixture
def bench(deep_policy: TinyPolicy) -> Bench:
    return Bench(deep_policy)


def said(frames: list[TrainingFrame], tokens: torch.Tensor) -> float:
    """Return the share of what was generated that these tokens cover."""
    ids = torch.cat([frame.token_ids[frame.header.prompt_tokens :] for frame in frames])
    return float(torch.isin(ids, tokens).float().mean())


def tokens(bench: Bench) -> torch.Tensor:
    found = bench.learner.tokens
    assert found is not None
    return found


async def test_it_learns_under_a_lease_from_frames_with_layers(bench: Bench) -> None:
    bench.give_data()
    async with running(bench):
        await bench.start(1)
        await until(lambda: bench.loop.progress.held_out_top1 > 0.25)
        assert not bench.learner.lacks_tokens
        assert said(bench.frames, tokens(bench)) >= said(bench.frames, TOKENS)
        await bench.loop.preempt(Epoch(1))
        await until(lambda: bool(bench.saved.offered))
    assert torch.equal(tokens_of(bench.saved.offered[-1].weights[MAP]), tokens(bench))


async def test_draft_tokens_are_chosen_again_when_the_policy_says_others(bench: Bench) -> None:
    bench.give_data()
    counts = bench.pool._said
    assert counts is not None
    async with running(bench):
        await bench.start(1)
        await until(lambda: bench.loop.progress.training and not bench.learner.lacks_tokens)
        first = set(tokens(bench).tolist())
        unknown = [token for token in range(48) if token not in first]
        for token in unknown:
            counts.add(torch.full((COUNTED_TOKENS,), token))
        steps = bench.learner.counters.steps
        await until(lambda: set(unknown) <= set(tokens(bench).tolist()))
        await until(lambda: bench.learner.counters.steps > steps + 5)
    assert len(first & set(tokens(bench).tolist())) == DRAFT_TOKENS - len(unknown)


async def test_who_is_overtaken_by_a_drafter_with_other_tokens_takes_them_over(
    deep_policy: TinyPolicy, fleet: FakeFleet, tmp_path: Path
) -> None:
    one, two = (Trainer(deep_policy, fleet, tmp_path, name) for name in ("one", "two"))
    for trainer, chosen in ((one, TOKENS), (two, OTHERS)):
        trainer.learner.choose(chosen)
        trainer.pool.add(frames_of(deep_policy, 40, seed=9))
        trainer.train(seed=1, steps=20)
    assert await one.sharing.publish(SCORE, None)
    await two.sharing.publish(SCORE, None)
    followed = two.learner.tokens
    assert followed is not None
    assert fleet.drafter is not None
    assert two.learner.counters.base_version >= 1
    assert torch.equal(followed, TOKENS) or torch.equal(followed, OTHERS)
    assert bool(torch.isfinite(torch.tensor(two.learner.micro_step(_pack(deep_policy)))))
    # Who published last is followed by the other one, with its tokens.
    await one.sharing.follow()
    newest = one.learner.base()
    assert newest is not None
    assert one.learner.counters.base_version == fleet.drafter.version
    assert torch.equal(tokens_of(one.learner.averaged()[MAP]), tokens_of(newest[MAP]))


def _pack(policy: TinyPolicy) -> Pack:

    return collate(frames_of(policy, 4), CPU)
