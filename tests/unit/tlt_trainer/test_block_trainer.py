"""A spot trainer of block drafters: it learns under a lease, publishes, merges and continues as with EAGLE."""

import json
from pathlib import Path

import pytest
import torch

from tests.unit.tlt_trainer.fleet_trainer import SCORE, Trainer
from tests.unit.tlt_trainer.inline import FakeFleet
from tests.unit.tlt_trainer.tiny import CPU, TinyPolicy, for_block, frames_of
from tests.unit.tlt_trainer.virtual_trainer import Bench, running, until
from tlt_common.domain.ids import Epoch
from tlt_common.drafter.architecture import DrafterArchitecture
from tlt_common.drafter.reading import format_of
from tlt_trainer.config import TrainerConfig
from tlt_trainer.data.frame_pool import Defect, defect_of
from tlt_trainer.drafter.shared_weights import read_config, trained_format
from tlt_trainer.learner import Learner
from tlt_trainer.process import trained

pytestmark = pytest.mark.looptime


@pytest.fixture
def policy(deep_policy: TinyPolicy) -> TinyPolicy:
    return for_block(deep_policy)


@pytest.fixture
def bench(policy: TinyPolicy) -> Bench:
    return Bench(policy)


async def test_it_learns_under_a_lease_and_continues_from_what_was_saved(bench: Bench) -> None:
    bench.give_data()
    async with running(bench):
        await bench.start(1)
        await until(lambda: bench.learner.counters.steps >= 15 and bench.loop.progress.held_out_top1 > 0)
        await bench.loop.preempt(Epoch(1))
        await until(lambda: bool(bench.saved.offered))
    saved = bench.saved.offered[-1]
    assert saved.weights.keys() == bench.learner.form.tensor_shapes().keys()
    again = Learner(bench.learner.form, CPU)
    again.restore(saved)
    assert again.counters == saved.counters
    assert all(torch.equal(tensor, again.averaged()[name]) for name, tensor in saved.average.items())


async def test_it_merges_with_what_another_has_published(policy: TinyPolicy, fleet: FakeFleet, tmp_path: Path) -> None:
    one, two = (Trainer(policy, fleet, tmp_path, name) for name in ("one", "two"))
    for seed, trainer in enumerate((one, two)):
        trainer.pool.add(frames_of(policy, 40, seed=9))
        trainer.train(seed=seed, steps=20)
    assert await one.sharing.publish(SCORE, None)
    await two.sharing.publish(SCORE, None)
    assert fleet.drafter is not None
    assert two.learner.counters.base_version >= 1
    await one.sharing.follow()
    newest = one.learner.base()
    assert newest is not None
    assert one.learner.counters.base_version == fleet.drafter.version
    assert newest.keys() == policy.form.tensor_shapes().keys()


def test_states_of_other_layers_are_not_trained_on(policy: TinyPolicy) -> None:
    (frame,) = frames_of(policy, 1)
    assert defect_of(frame.header, policy.form) is None
    other = trained_format(read_config(policy.directory), DrafterArchitecture.BLOCK, layers=(0, 1))
    assert defect_of(frame.header, other) is Defect.OTHER_LAYERS


def test_a_trainer_trains_the_format_it_is_given(policy: TinyPolicy, tmp_path: Path) -> None:
    """That of a public drafter has sizes that the suite would not choose."""
    target = read_config(policy.directory)
    published = {
        **policy.form.config(target), "architectures": ["DFlashDraftModel"], "num_hidden_layers": 3, "block_size": 16,
        "layer_types": ["full_attention"] * 3, "dflash_config": {"mask_token_id": 5, "target_layer_ids": [1, 2]},
    }  # fmt: skip
    published = {name: value for name, value in published.items() if "markov" not in name}
    (tmp_path / "config.json").write_text(json.dumps(published))
    config = TrainerConfig(
        socket=tmp_path / "s", model=policy.directory, drafter_dir="memory://d", checkpoint_dir="memory://c",
        drafter_format=tmp_path,
    )  # fmt: skip
    form = trained(target, config)
    assert form == format_of(published, target)
    assert (form.block_drafts, form.layer_count, form.layers) == (15, 3, (1, 2))
