"""All ways to form batches hold the same work, so that their speeds can be compared."""

import random
from pathlib import Path

import pytest
import torch

from tests.unit.tlt_trainer.tiny import TinyPolicy, frames_of, precise, tiny_policy, wild
from tlt_bench.train.windows import WAYS
from tlt_trainer.drafter.loss import unrolled_loss


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> TinyPolicy:
    return tiny_policy(Path(tmp_path_factory.mktemp("policy")))


@pytest.mark.parametrize("way", WAYS)
def test_every_way_has_the_same_loss_and_keeps_to_the_size(policy: TinyPolicy, way: str) -> None:
    frames = [frame for tokens in (9, 30, 64, 12, 50) for frame in frames_of(policy, 2, tokens=tokens, seed=tokens)]
    drafter, shared = wild(policy.form).double(), (policy.shared.embedding.double(), policy.shared.head.double())
    batches = WAYS[way](frames, 128, random.Random(0))
    with torch.no_grad():
        scores = [unrolled_loss(drafter, *shared, precise(pack)) for pack in batches]
        alone = [unrolled_loss(drafter, *shared, precise(pack)) for pack in WAYS["packed"](frames, 1, random.Random(0))]
    assert all(pack.tokens <= 128 for pack in batches)
    assert sum(int(score.counts[0]) for score in scores) == sum(int(score.counts[0]) for score in alone)
    assert sum(float(score.loss) for score in scores) == pytest.approx(sum(float(score.loss) for score in alone))
