"""Drafters of both kinds are looked at before the engine is asked, and refused with the reason."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from tlt_common.drafter.architecture import DrafterArchitecture
from tlt_common.drafter.format import DrafterFormat
from tlt_common.drafter.meta import DrafterMeta
from tlt_common.drafter.reading import standard_format
from tlt_common.errors import ConfigError, WeightsError
from tlt_trainer.drafter.files import to_files
from tlt_trainer.drafter.shared_weights import trained_format
from tlt_worker.checkpoints.drafter import first_drafter, next_drafter, write_blank_drafter
from tlt_worker.checkpoints.drafter_format import drafter_format
from tlt_worker.engine_config import EngineConfig

EAGLE3_KIND = DrafterArchitecture.EAGLE3

TARGET: dict[str, Any] = {
    "vocab_size": 16, "hidden_size": 8, "intermediate_size": 12, "num_attention_heads": 4, "num_key_value_heads": 2,
    "num_hidden_layers": 9, "architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "rope_theta": 1e6,
}  # fmt: skip
EAGLE = standard_format(DrafterArchitecture.EAGLE, TARGET)
EAGLE3 = standard_format(DrafterArchitecture.EAGLE3, TARGET, draft_vocabulary=6)
KINDS = pytest.mark.parametrize("form", [EAGLE, EAGLE3], ids=["eagle", "eagle3"])

Change = Callable[[dict[str, Any]], object]


def published(directory: Path, form: DrafterFormat) -> Path:
    """A drafter as others would write it."""
    write_blank_drafter(directory, form, TARGET, torch.float32)
    changed(directory, config=lambda it: it.update(architectures=[form.model_class], rope_theta=1e6))
    return directory


def changed(directory: Path, *, config: Change | None = None, tensors: Change | None = None) -> None:
    if config is not None:
        said = json.loads((directory / "config.json").read_text())
        config(said)
        (directory / "config.json").write_text(json.dumps(said))
    if tensors is not None:
        held = load_file(directory / "model.safetensors")
        tensors(held)
        save_file(held, directory / "model.safetensors")


@KINDS
def test_a_drafter_of_the_engines_form_is_taken(tmp_path: Path, form: DrafterFormat) -> None:
    taken = dict(next_drafter(published(tmp_path, form), form, TARGET))
    assert {name: tuple(tensor.shape) for name, tensor in taken.items() if name != "d2t"} == {
        **form.tensor_shapes(),
        **form.bias_shapes(),
    }
    assert all(not taken[name].any() for name in form.bias_shapes())


def test_biases_of_a_drafter_are_taken_and_the_next_one_does_not_keep_them(tmp_path: Path) -> None:
    published(tmp_path, EAGLE)
    changed(tmp_path, tensors=lambda it: it.update({name: torch.ones(n) for name, (n,) in EAGLE.bias_shapes().items()}))
    assert all(dict(next_drafter(tmp_path, EAGLE, TARGET))[name].all() for name in EAGLE.bias_shapes())
    changed(tmp_path, tensors=lambda it: [it.pop(name) for name in EAGLE.bias_shapes()])
    assert not any(dict(next_drafter(tmp_path, EAGLE, TARGET))[name].any() for name in EAGLE.bias_shapes())


def pickled(directory: Path) -> None:
    torch.save(load_file(directory / "model.safetensors"), directory / "pytorch_model.bin")
    (directory / "model.safetensors").unlink()


@KINDS
def test_a_pickled_drafter_is_taken_like_one_in_safetensors(tmp_path: Path, form: DrafterFormat) -> None:
    expected = dict(next_drafter(published(tmp_path, form), form, TARGET))
    pickled(tmp_path)
    taken = dict(next_drafter(tmp_path, form, TARGET))
    assert taken.keys() == expected.keys()
    assert all(torch.equal(taken[name], expected[name]) for name in taken)


def test_a_pickle_of_other_things_and_one_of_other_shapes_are_refused(tmp_path: Path) -> None:
    published(tmp_path, EAGLE)
    changed(tmp_path, tensors=lambda it: it.update({"fc.weight": torch.zeros(8, 8)}))
    pickled(tmp_path)
    with pytest.raises(WeightsError, match=r"fc\.weight has shape \[8, 8\]"):
        next_drafter(tmp_path, EAGLE, TARGET)
    torch.save({"fc.weight": Path}, tmp_path / "pytorch_model.bin")
    with pytest.raises(WeightsError, match=r"pytorch_model\.bin cannot be read"):
        next_drafter(tmp_path, EAGLE, TARGET)
    torch.save([torch.zeros(2)], tmp_path / "pytorch_model.bin")
    with pytest.raises(WeightsError, match=r"pytorch_model\.bin is not a dictionary of tensors"):
        next_drafter(tmp_path, EAGLE, TARGET)


def test_shapes_are_those_of_the_two_architectures() -> None:
    assert EAGLE.tensor_shapes()["fc.weight"] == (8, 16)
    assert EAGLE.tensor_shapes()["layers.0.self_attn.k_proj.weight"] == (4, 8)
    assert EAGLE3.layers == (1, 3, 5)
    assert EAGLE3.tensor_shapes()["fc.weight"] == (8, 24)
    assert EAGLE3.tensor_shapes()["layers.0.self_attn.k_proj.weight"] == (4, 16)
    assert EAGLE3.tensor_shapes()["lm_head.weight"] == (6, 8)


def test_what_the_trainer_publishes_is_taken(tmp_path: Path) -> None:
    form = trained_format(TARGET)
    weights = {name: torch.randn(size) for name, size in form.tensor_shapes().items()}
    meta = DrafterMeta(version=1, base=0, worker_id="w", steps=1, tokens=1, held_out_top1=0.5)
    for name, content in to_files(weights, form, meta).items():
        (tmp_path / name).write_bytes(content)
    assert dict(next_drafter(tmp_path, EAGLE, TARGET)).keys() == weights.keys() | EAGLE.bias_shapes().keys()


def test_names_of_eagle3s_authors_are_understood(tmp_path: Path) -> None:
    published(tmp_path, EAGLE3)
    held = load_file(tmp_path / "model.safetensors")
    held = {name.replace("layers.0.", "midlayer."): tensor for name, tensor in held.items()}
    held |= {"t2d": torch.ones(16, dtype=torch.bool), "embed_tokens.weight": torch.ones(16, 8)}
    save_file(held, tmp_path / "model.safetensors")
    taken = dict(next_drafter(tmp_path, EAGLE3, TARGET))
    assert "layers.0.hidden_norm.weight" in taken
    assert not taken.keys() & {"t2d", "embed_tokens.weight"}


def test_a_head_of_fewer_tokens_is_filled_up_with_tokens_that_stand_for_none(tmp_path: Path) -> None:
    published(tmp_path, replace(EAGLE3, draft_vocab_size=4))
    changed(
        tmp_path, tensors=lambda it: it.update({"lm_head.weight": torch.ones(4, 8), "d2t": torch.tensor([9, 1, 3, -3])})
    )
    taken = dict(next_drafter(tmp_path, EAGLE3, TARGET))
    assert taken["lm_head.weight"].sum(1).tolist() == [8, 8, 8, 8, 0, 0]
    assert (taken["d2t"] + torch.arange(6)).tolist() == [9, 2, 5, 0, 16, 16]


def test_a_head_of_all_tokens_needs_no_map(tmp_path: Path) -> None:
    whole = replace(EAGLE3, draft_vocab_size=16)
    published(tmp_path, whole)
    changed(tmp_path, tensors=lambda it: it.pop("d2t"))
    assert dict(next_drafter(tmp_path, whole, TARGET))["d2t"].tolist() == [0] * 16


@KINDS
@pytest.mark.parametrize(
    ("config", "said"),
    [
        (lambda it: it.update(hidden_size=16), "hidden_size is 16.*8"),
        (lambda it: it.update(vocab_size=32), "vocab_size is 32.*16"),
        (lambda it: it.update(architectures=["MambaForCausalLM"]), "'MambaForCausalLM'; accepted: Llama"),
        (lambda it: it.pop("architectures"), "architecture is None"),
        (lambda it: it.update(num_hidden_layers=2), "depth is 2; the engine was launched for 1"),
        (lambda it: it.update(fc_norm=True), "fc_norm is set|norms_each is True; the engine was launched for False"),
        (lambda it: it.pop("intermediate_size"), "has no intermediate_size"),
        (lambda it: it.update(hidden_size="eight"), "eight"),
        (lambda it: it.update(num_key_value_heads=4), "kv_heads is 4; the engine was launched for 2"),
        (lambda it: it.update(rope_parameters={"rope_theta": 5.0}), "rope is .*5.0"),
    ],
)  # fmt: skip
def test_a_configuration_that_does_not_fit_is_refused(
    tmp_path: Path, form: DrafterFormat, config: Change, said: str
) -> None:
    published(tmp_path, form)
    changed(tmp_path, config=config)
    with pytest.raises(WeightsError, match=said):
        next_drafter(tmp_path, form, TARGET)


@KINDS
@pytest.mark.parametrize(
    ("tensors", "said"),
    [
        (lambda it: it.update({"fc.weight": torch.zeros(8, 8)}), r"fc.weight has shape \[8, 8\]"),
        (lambda it: it["fc.weight"].fill_(float("nan")), "fc.weight.*not finite"),
        (lambda it: it["fc.bias"].fill_(float("inf")), "fc.bias.*not finite"),
        (lambda it: it.update({"layers.1.mlp.up_proj.weight": torch.zeros(2)}), "layers.1.*one layer is run"),
        (lambda it: it.pop("layers.0.mlp.up_proj.weight"), "up_proj.weight is missing"),
        (lambda it: it.update({"fc.weight": it["fc.weight"].to(torch.int8)}), "fc.weight has type I8"),
        (lambda it: it.update({"embed_tokens.weight": torch.zeros(32, 8)}), r"embed_tokens.weight has shape \[32, 8\]"),
    ],
)  # fmt: skip
def test_tensors_that_do_not_fit_are_refused(tmp_path: Path, form: DrafterFormat, tensors: Change, said: str) -> None:
    published(tmp_path, form)
    changed(tmp_path, tensors=tensors)
    with pytest.raises(WeightsError, match=said):
        next_drafter(tmp_path, form, TARGET)


@pytest.mark.parametrize(
    ("d2t", "said"),
    [
        (torch.tensor([0, 0, 0, 0, 0, 11]), "draft token 5 to 16; accepted: tokens 0 to 15"),
        (torch.tensor([-1, 0, 0, 0, 0, 0]), "draft token 0 to -1"),
        (torch.tensor([0, 0, 0, -2, 0, 0]), "draft tokens 1 and 3 to the same token 1"),
        (torch.zeros(5, dtype=torch.int64), r"d2t has shape \[5\]"),
        (torch.zeros(6), "d2t has type F32"),
        (None, "d2t is missing.*6 draft tokens to 16"),
    ],
)
def test_maps_that_are_none_are_refused(tmp_path: Path, d2t: torch.Tensor | None, said: str) -> None:
    published(tmp_path, EAGLE3)
    changed(tmp_path, tensors=lambda it: it.pop("d2t") if d2t is None else it.update(d2t=d2t))
    with pytest.raises(WeightsError, match=said):
        next_drafter(tmp_path, EAGLE3, TARGET)


@pytest.mark.parametrize(
    ("config", "said"),
    [
        (lambda it: it.update(draft_vocab_size=7), "draft_vocab_size is 7; the engine was launched for 6"),
        (lambda it: it.update(draft_vocab_size=17), "draft_vocab_size is 17; accepted: 1 to 16"),
        (lambda it: it["eagle_config"].update(eagle_aux_hidden_state_layer_ids=[1, 2, 5]), "layers is .*1, 2, 5"),
        (lambda it: it["eagle_config"].update(eagle_aux_hidden_state_layer_ids=[1, 3, 8]), "from 0 to 7"),
        (lambda it: it["eagle_config"].update(eagle_aux_hidden_state_layer_ids=[3, 1, 5]), "ascending"),
        (lambda it: it["eagle_config"].update(eagle_aux_hidden_state_layer_ids=[3]), "at least two layers"),
    ],
)  # fmt: skip
def test_an_eagle3_form_that_cannot_be_swapped_in_is_refused(tmp_path: Path, config: Change, said: str) -> None:
    published(tmp_path, EAGLE3)
    changed(tmp_path, config=config)
    with pytest.raises(WeightsError, match=said):
        next_drafter(tmp_path, EAGLE3, TARGET)


def test_a_drafter_of_the_other_architecture_is_refused(tmp_path: Path) -> None:
    with pytest.raises(WeightsError, match="architecture is 'eagle3'; the engine was launched for 'eagle'"):
        next_drafter(published(tmp_path / "3", EAGLE3), EAGLE, TARGET)
    with pytest.raises(WeightsError, match="architecture is 'eagle'; the engine was launched for 'eagle3'"):
        next_drafter(published(tmp_path / "1", EAGLE), EAGLE3, TARGET)


def test_directories_that_hold_no_drafter_are_refused(tmp_path: Path) -> None:
    with pytest.raises(WeightsError, match=r"config\.json is not readable"):
        next_drafter(tmp_path, EAGLE, TARGET)
    (published(tmp_path / "bare", EAGLE) / "config.json").unlink()
    with pytest.raises(WeightsError, match=r"config\.json is not readable"):
        next_drafter(tmp_path / "bare", EAGLE, TARGET)
    file = published(tmp_path / "cut", EAGLE) / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-40])
    with pytest.raises(WeightsError, match=r"model\.safetensors is not a safetensors file: .*truncated"):
        next_drafter(tmp_path / "cut", EAGLE, TARGET)
    file.unlink()
    with pytest.raises(WeightsError, match=r"no \*\.safetensors"):
        next_drafter(tmp_path / "cut", EAGLE, TARGET)


def test_the_given_drafter_decides_what_is_launched(tmp_path: Path) -> None:
    own = replace(EAGLE3, kv_heads=4, intermediate_size=20, layers=(0, 2))
    form, tensors = first_drafter(EngineConfig(drafter=published(tmp_path, own)), TARGET)
    assert form == own
    assert dict(tensors)["fc.weight"].shape == (8, 16)
    given = EngineConfig(drafter=tmp_path, drafter_architecture=EAGLE3_KIND, draft_vocabulary=40, drafter_layers=(0, 2))
    roomy, tensors = first_drafter(given, TARGET)
    assert roomy == replace(own, draft_vocab_size=16)
    assert dict(tensors)["lm_head.weight"].shape == (16, 8)


def test_without_a_drafter_the_kind_decides() -> None:
    assert first_drafter(EngineConfig(), TARGET) == (EAGLE, [])
    eagle3 = EngineConfig(drafter_architecture=EAGLE3_KIND)
    assert first_drafter(eagle3.model_copy(update={"draft_vocabulary": 6}), TARGET) == (EAGLE3, [])
    assert first_drafter(eagle3, {**TARGET, "vocab_size": 50_000})[0].draft_vocab_size == 32_000
    shallow = eagle3.model_copy(update={"drafter_layers": (0, 2)})
    assert first_drafter(shallow, {**TARGET, "num_hidden_layers": 4})[0].layers == (0, 2)


def test_an_engine_may_be_started_for_the_format_of_a_drafter_that_comes_later(tmp_path: Path) -> None:
    own = replace(EAGLE3, kv_heads=4, intermediate_size=20, layers=(0, 2))
    engine = EngineConfig(drafter_format=published(tmp_path, own))
    assert first_drafter(engine, TARGET) == (own, [])
    assert drafter_format(engine, TARGET) == own
    with pytest.raises(ConfigError, match=r"engine\.drafter_architecture is eagle; that of .* is eagle3"):
        first_drafter(engine.model_copy(update={"drafter_architecture": DrafterArchitecture.EAGLE}), TARGET)
    with pytest.raises(ConfigError, match=r"engine\.drafter_format: .*nowhere") as refused:
        first_drafter(EngineConfig(drafter_format=tmp_path / "nowhere"), TARGET)
    assert refused.value.field == "engine.drafter_format"


def test_a_bad_drafter_at_the_start_is_an_error_of_configuration(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"engine\.drafter: .*nowhere") as refused:
        first_drafter(EngineConfig(drafter=tmp_path / "nowhere"), TARGET)
    assert refused.value.field == "engine.drafter"
    given = EngineConfig(drafter=published(tmp_path, EAGLE3))
    with pytest.raises(ConfigError, match=r"engine\.drafter_architecture is eagle; that of .* is eagle3"):
        first_drafter(given.model_copy(update={"drafter_architecture": DrafterArchitecture.EAGLE}), TARGET)
    with pytest.raises(ConfigError, match=r"engine\.drafter_layers is \[0, 2\]; that of .* is \[1, "):
        first_drafter(given.model_copy(update={"drafter_layers": (0, 2)}), TARGET)
    with pytest.raises(ConfigError, match=r"the target has only 4 layers.*set engine\.drafter_layers"):
        first_drafter(EngineConfig(drafter_architecture=EAGLE3_KIND), {**TARGET, "num_hidden_layers": 4})
