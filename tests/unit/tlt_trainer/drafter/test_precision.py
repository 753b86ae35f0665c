"""Training in either type, whichever the device multiplies faster."""

from dataclasses import replace

import pytest
import torch

import tlt_trainer.learner
from tests.unit.tlt_trainer.tiny import CPU, TinyPolicy, for_block, frames_of
from tlt_common.drafter.block import BlockFormat, MarkovHead
from tlt_trainer.data.pack import collate
from tlt_trainer.drafter.score import ScoreTally
from tlt_trainer.drafter.shared_weights import SharedWeights
from tlt_trainer.learner import Learner


def _trained(policy: TinyPolicy, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> tuple[list[float], ScoreTally]:
    monkeypatch.setattr(tlt_trainer.learner, "compute_dtype", lambda _: dtype)
    learner, pack = Learner(policy.form, CPU), collate(frames_of(policy, 4), CPU)
    learner.share(policy.shared)
    return [learner.micro_step(pack) for _ in range(6)], learner.tally(pack)


def test_both_types_learn_the_same(policy: TinyPolicy, monkeypatch: pytest.MonkeyPatch) -> None:
    losses, tally = _trained(policy, torch.float32, monkeypatch)
    coarse, coarse_tally = _trained(policy, torch.bfloat16, monkeypatch)
    assert losses[-1] < 0.95 * losses[0]
    assert coarse == pytest.approx(losses, rel=0.02)
    assert coarse_tally.accepted == pytest.approx(tally.accepted, rel=0.05)
    assert coarse_tally.counts == tally.counts


@pytest.mark.parametrize("head", MarkovHead)
def test_both_types_learn_the_same_blocks(
    deep_policy: TinyPolicy, head: MarkovHead, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocks = for_block(deep_policy)
    assert isinstance(blocks.form, BlockFormat)
    rank = 0 if head is MarkovHead.NONE else 8
    form = replace(blocks.form, markov_head=head, markov_rank=rank, samples_anchor=bool(rank))
    losses, tally = _trained(replace(blocks, form=form), torch.float32, monkeypatch)
    coarse, coarse_tally = _trained(replace(blocks, form=form), torch.bfloat16, monkeypatch)
    assert coarse == pytest.approx(losses, rel=0.02)
    assert coarse_tally.accepted == pytest.approx(tally.accepted, rel=0.1)
    assert coarse_tally.counts[0] == tally.counts[0]


def test_tied_weights_stay_one_tensor() -> None:
    rows = torch.randn(6, 4).bfloat16()
    tied = SharedWeights(embedding=rows, head=rows).to(torch.float32)
    assert tied.head is tied.embedding
    assert torch.equal(tied.head.bfloat16(), rows)
    own = SharedWeights(embedding=rows, head=rows.clone()).to(torch.float32)
    assert own.head is not own.embedding
