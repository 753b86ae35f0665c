"""Heads that checkpoints bring: training begins with them, and leaves their experts alone."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load, load_file, save_file
from torch import Tensor

from tests.engine import models
from tests.families import model_of
from tests.unit.tlt_trainer.tiny import CPU, causal, frame
from tlt_common.drafter.heads import HEADS
from tlt_common.drafter.meta import WEIGHTS_FILE, DrafterMeta
from tlt_common.drafter.mtp import HeadRouting
from tlt_common.errors import ConfigError
from tlt_trainer.data.pack import collate
from tlt_trainer.drafter.export import ExportFormat, exported
from tlt_trainer.drafter.files import from_files, to_files
from tlt_trainer.drafter.kinds.mtp import FrozenExperts, MtpDrafter
from tlt_trainer.drafter.own_head import read_own_head
from tlt_trainer.drafter.shared_weights import read_format, read_shared
from tlt_trainer.learner import Learner
from tlt_trainer.offline.importing import imported
from tlt_worker.checkpoints.model_config import read_config

families = pytest.mark.parametrize("family", [row.model_type for row in HEADS.values()])
META = DrafterMeta(version=1, base=0, worker_id="w", steps=1, tokens=2, held_out_top1=0.5)


def policy(directory: Path, family: str) -> Path:
    return models.write_head(models.write_target(directory, vocabulary=48, layers=2, family=family))


def learner_of(model: Path) -> Learner:
    learner = Learner(models.head_format(model), CPU)
    head = read_own_head(model, learner.form)
    assert head is not None
    learner.begin(head)
    learner.share(read_shared(model, learner.form, CPU))
    return learner


def drafter_of(learner: Learner) -> MtpDrafter:
    found = learner.candidate(learner.averaged())
    assert isinstance(found, MtpDrafter)
    return found


@families
def test_training_begins_with_the_checkpoints_head(tmp_path: Path, family: str) -> None:
    learner = learner_of(policy(tmp_path, family))
    whole = load_file(tmp_path / "model.safetensors")
    names = {name: learner.form.published_name(name) for name in learner.form.tensor_shapes()}
    assert {name: tensor.shape for name, tensor in learner.averaged().items()} == {
        name: whole[published].shape for name, published in names.items()
    }
    base = learner.base()
    assert base is not None  # what a first publication must be better than
    for name, published in names.items():
        assert torch.equal(learner.averaged()[name], whole[published])
        assert torch.equal(base[name], whole[published])


def test_an_eagle_drafter_begins_from_nothing(tmp_path: Path) -> None:
    form = read_format(models.write_target(tmp_path))
    assert read_own_head(tmp_path, form) is None
    assert Learner(form, CPU).base() is None


@families
def test_a_head_that_is_not_there_is_named(tmp_path: Path, family: str) -> None:
    form = models.head_format(policy(tmp_path, family))
    name = form.published_name("norm.weight")
    tensors = {key: tensor for key, tensor in load_file(tmp_path / "model.safetensors").items() if key != name}
    save_file(tensors, tmp_path / "model.safetensors")
    with pytest.raises(ConfigError, match=f"tensor {name} of .* is missing"):
        read_own_head(tmp_path, form)


@families
def test_training_changes_what_is_trained_and_no_expert(tmp_path: Path, family: str) -> None:
    learner = learner_of(policy(tmp_path, family))
    before = learner.weights()
    experts = drafter_of(learner).experts
    assert (experts is None) == (not learner.form.frozen_shapes())
    kept = None if experts is None else experts.gate_up.clone()
    torch.manual_seed(0)
    for number in range(8):
        pack = collate([frame(number, 60, prompt=1)], CPU)
        pack.hidden.normal_()
        learner.micro_step(pack, steps=False)
    learner.step()
    after = learner.weights()
    assert {name for name in before if torch.equal(before[name], after[name])} == set()
    if experts is not None and kept is not None:
        assert torch.equal(experts.gate_up, kept)
        assert drafter_of(learner).experts is experts


@families
def test_published_heads_have_the_checkpoints_names(tmp_path: Path, family: str) -> None:
    learner = learner_of(policy(tmp_path, family))
    files, form = to_files(learner.weights(), learner.form, META), learner.form
    names = {form.published_name(name) for name in form.tensor_shapes()}
    assert load(files[WEIGHTS_FILE]).keys() == names
    assert names < load_file(tmp_path / "model.safetensors").keys()
    read = from_files(files, form)
    assert all(torch.equal(read[name], tensor.bfloat16().float()) for name, tensor in learner.weights().items())
    for to in ExportFormat:
        found = exported(files, to, model="acme/policy")
        assert load(found[WEIGHTS_FILE]).keys() == names
        assert b"NEXTN" in found["README.md"]
    written, changes = imported(files, read_config(tmp_path))
    assert load(written[WEIGHTS_FILE]).keys() == names
    assert not [change for change in changes if "weight" in change]


def test_a_mimos_head_does_not_see_the_first_embedding(tmp_path: Path) -> None:
    drafter = drafter_of(learner_of(policy(tmp_path, "mimo")))
    embedded = torch.ones(3, 32)
    assert drafter.embedded(embedded, torch.tensor([0, 1, 2]))[:, 0].tolist() == [0, 1, 1]
    glm = drafter_of(learner_of(policy(tmp_path / "glm", "glm4_moe")))
    assert torch.equal(glm.embedded(embedded, torch.tensor([0, 1, 2])), embedded)


@pytest.mark.parametrize(("groups", "chosen_groups", "is_normed"), [(1, 1, True), (4, 2, True), (2, 1, False)])
def test_experts_are_those_of_transformers(groups: int, chosen_groups: int, is_normed: bool) -> None:
    torch.manual_seed(0)
    model = model_of("glm4_moe", n_group=groups, topk_group=chosen_groups, norm_topk_prob=is_normed, n_shared_experts=1)
    block = model.model.layers[1].mlp
    for tensor in (*block.parameters(), *block.buffers()):
        tensor.data.normal_(std=0.3)
    experts = FrozenExperts(
        router=block.gate.weight.data,
        correction=block.gate.e_score_correction_bias,
        gate_up=block.experts.gate_up_proj.data,
        down=block.experts.down_proj.data,
    )
    x = torch.randn(40, 32)
    routing = HeadRouting(
        count=8, inner=24, chosen=2, shared=1, groups=groups, chosen_groups=chosen_groups, is_normed=is_normed
    )
    with torch.no_grad():
        expected: Tensor = block(x[None])[0] - block.shared_experts(x)
    torch.testing.assert_close(experts.outputs(x, routing) * 1.5, expected, rtol=1e-4, atol=1e-5)


def test_gradients_pass_through_experts(tmp_path: Path) -> None:
    drafter = drafter_of(learner_of(policy(tmp_path, "glm4_moe"))).requires_grad_()
    assert drafter.experts is not None
    drafter.experts = drafter.experts.to(CPU, torch.float32)
    states = torch.randn(6, 32, requires_grad=True)
    out = drafter(torch.randn(6, 32), states, drafter.angles(torch.arange(6)), causal)
    out.square().sum().backward()
    assert drafter.enorm.weight.grad is not None
    assert states.grad is not None
    assert bool(states.grad.abs().sum() > 0)
