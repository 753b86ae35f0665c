"""A checkpoint's own head is the first drafter if its tensors are there, whatever its config.json says."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.engine import models
from tlt_common.drafter.architecture import DrafterArchitecture
from tlt_common.drafter.heads import HEADS
from tlt_common.errors import ConfigError, WeightsError
from tlt_worker.checkpoints.drafter import first_drafter, next_drafter, write_launch_drafter
from tlt_worker.checkpoints.model_config import read_config
from tlt_worker.checkpoints.own_head import with_architecture
from tlt_worker.checkpoints.policy import ModelTensors
from tlt_worker.engine_config import EngineConfig

families = pytest.mark.parametrize("family", [row.model_type for row in HEADS.values()])
MTP = DrafterArchitecture.MTP


def written(directory: Path, family: str) -> Path:
    return models.write_target(directory, layers=2, family=family)


@families
def test_a_head_is_chosen_by_its_tensors(tmp_path: Path, family: str) -> None:
    model = written(tmp_path, family)
    assert read_config(model)["num_nextn_predict_layers"] == 1  # which proves nothing
    assert with_architecture(EngineConfig(), model).drafter_architecture is None
    models.write_head(model)
    assert with_architecture(EngineConfig(), model).drafter_architecture is MTP
    for engine in (
        EngineConfig(drafter_architecture=DrafterArchitecture.EAGLE),
        EngineConfig(drafter=tmp_path / "drafter"),
    ):
        assert with_architecture(engine, model) == engine


def test_a_policy_of_another_family_brings_none(tmp_path: Path) -> None:
    assert with_architecture(EngineConfig(), written(tmp_path, "llama")).drafter_architecture is None


def test_a_checkpoint_without_weights_is_taken_at_its_word(tmp_path: Path) -> None:
    model = written(tmp_path, "mimo")
    (model / "model.safetensors").unlink()
    assert with_architecture(EngineConfig(), model).drafter_architecture is MTP


@families
def test_an_engine_is_launched_with_the_checkpoints_head(tmp_path: Path, family: str) -> None:
    model = models.write_head(written(tmp_path / "model", family))
    form, given = first_drafter(EngineConfig(drafter_architecture=MTP), read_config(model))
    assert not given
    write_launch_drafter(tmp_path / "launch", form, model, torch.bfloat16)
    launched, whole = (load_file(path / "model.safetensors") for path in (tmp_path / "launch", model))
    expected = {form.published_name(name) for name in (*form.tensor_shapes(), *form.frozen_shapes())}
    assert launched.keys() == expected
    assert all(torch.equal(tensor, whole[name]) for name, tensor in launched.items())
    config = json.loads((tmp_path / "launch/config.json").read_text())
    assert config["architectures"] == [form.model_class]
    assert (config["model_type"], config["num_hidden_layers"]) == (family, 2)


@families
def test_a_head_that_is_not_there_is_refused_by_name(tmp_path: Path, family: str) -> None:
    model = models.write_head(written(tmp_path / "model", family))
    form = models.head_format(model)
    name = form.published_name("fc.weight")
    tensors = load_file(model / "model.safetensors")
    del tensors[name]
    save_file(tensors, model / "model.safetensors")
    with pytest.raises(ConfigError, match=f"tensor {name} of .* is missing; accepted") as refused:
        write_launch_drafter(tmp_path / "launch", form, model, torch.float32)
    assert refused.value.field == "engine.drafter_architecture"


@families
def test_a_published_head_takes_its_place(tmp_path: Path, family: str) -> None:
    model = models.write_head(written(tmp_path / "model", family))
    form = models.head_format(model)
    published = models.write_published_head(tmp_path / "head", model, noise=0.1, gain=1.0)
    taken = dict(next_drafter(published, form, read_config(model)))
    assert taken.keys() == {form.published_name(name) for name in form.tensor_shapes()}


def test_a_head_of_another_family_or_architecture_is_refused(tmp_path: Path) -> None:
    glm, mimo = (models.write_head(written(tmp_path / name, name)) for name in ("glm4_moe", "mimo"))
    published = models.write_published_head(tmp_path / "head", mimo, noise=0.1, gain=1.0)
    with pytest.raises(WeightsError, match="the drafter is a head of MiMoForCausalLM"):
        next_drafter(published, models.head_format(glm), read_config(glm))
    eagle = models.write_drafter(tmp_path / "eagle", mimo, noise=0.1)
    with pytest.raises(WeightsError, match="architecture is 'eagle'; the engine was launched for 'mtp'"):
        next_drafter(eagle, models.head_format(mimo), read_config(mimo))


@families
def test_an_update_may_have_a_head_or_none(tmp_path: Path, family: str) -> None:
    """Neither is loaded; see `make families`."""
    bare, with_head = (written(tmp_path / name, family) for name in ("bare", "with"))
    models.write_head(with_head)
    for running in (bare, with_head):
        tensors = ModelTensors.of(running)
        for offered in (bare, with_head):
            tensors.check(offered)
