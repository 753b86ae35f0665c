"""Whether a model's files are complete."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.families import config_of, shapes_of
from tests.unit.tlt_worker.model.tiny import change, write
from tlt_common.errors import ConfigError
from tlt_worker.engine_config import EngineConfig
from tlt_worker.model.files import require_model
from tlt_worker.model.requirements import family_of
from tlt_worker.model.tensors import expected_tensors

ENGINE = EngineConfig()
WEIGHTS = "model.safetensors"


@pytest.mark.parametrize(
    ("family", "options"),
    [
        ("llama", {}),
        ("llama", {"attention_bias": True}),
        ("llama", {"tie_word_embeddings": True}),
        ("llama", {"head_dim": 16}),
        ("qwen2", {}),
        ("qwen2", {"tie_word_embeddings": True}),
        ("qwen3", {}),
        ("qwen3", {"attention_bias": True}),
        ("qwen3_moe", {}),
        ("qwen3_moe", {"norm_topk_prob": True, "attention_bias": True}),
        ("glm4_moe", {}),
        ("glm4_moe", {"use_qk_norm": False, "attention_bias": False, "n_shared_experts": 2}),
        ("gpt_oss", {}),
    ],
)
def test_a_complete_checkpoint_has_the_tensors_of_transformers(
    tmp_path: Path, family: str, options: dict[str, Any]
) -> None:
    write(tmp_path, family, **options)
    config = config_of(family, **options).to_dict()
    assert expected_tensors(config, family_of(config)) == shapes_of(family, **options)
    assert require_model(tmp_path, ENGINE).headers.keys() == shapes_of(family, **options).keys()


def refused(directory: Path) -> str:
    with pytest.raises(ConfigError) as refusal:
        require_model(directory, ENGINE)
    assert refusal.value.field == "model"
    assert "\n" not in refusal.value.message
    return refusal.value.message


def rewrite(directory: Path, **tensors: torch.Tensor | None) -> None:
    known = {**load_file(directory / WEIGHTS), **tensors}
    save_file({name: tensor for name, tensor in known.items() if tensor is not None}, directory / WEIGHTS)


@pytest.mark.parametrize("name", ["lm_head.weight", "model.norm.weight", "model.layers.1.mlp.up_proj.weight"])
def test_a_missing_tensor_is_named(tmp_path: Path, name: str) -> None:
    rewrite(write(tmp_path), **{name: None})
    assert f"lacks 1 of the 21 tensors of its config.json, first {name}" in refused(tmp_path)


def test_tensors_of_another_naming_are_shown(tmp_path: Path) -> None:
    tensors = load_file(write(tmp_path) / WEIGHTS)
    save_file({f"language_model.{name}": tensor for name, tensor in tensors.items()}, tmp_path / WEIGHTS)
    assert "it has language_model." in refused(tmp_path)


def test_a_tensor_of_another_shape_is_named(tmp_path: Path) -> None:
    rewrite(write(tmp_path), **{"model.embed_tokens.weight": torch.zeros(49, 32)})
    assert "model.embed_tokens.weight of shape [49, 32]; its config.json says [48, 32]" in refused(tmp_path)


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.int8, torch.float64])
def test_a_tensor_that_is_no_common_float_is_named(tmp_path: Path, dtype: torch.dtype) -> None:
    rewrite(write(tmp_path), **{"model.norm.weight": torch.zeros(32, dtype=dtype)})
    assert "has tensor model.norm.weight of type" in refused(tmp_path)


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    path = write(tmp_path) / WEIGHTS
    path.write_bytes(path.read_bytes()[:-100])
    assert WEIGHTS in refused(tmp_path)


def test_a_shard_that_was_not_copied_is_named(tmp_path: Path) -> None:
    write(tmp_path)
    shards = {"model.norm.weight": WEIGHTS, "lm_head.weight": "model-00002-of-00002.safetensors"}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": shards}))
    assert "lacks model-00002-of-00002.safetensors, one of 1 missing of the 2 files" in refused(tmp_path)


@pytest.mark.parametrize("name", ["hf_quant_config.json", "quantize_config.json"])
def test_a_quantized_checkpoint_that_says_so_in_a_file_of_its_own_is_refused(tmp_path: Path, name: str) -> None:
    (write(tmp_path) / name).write_text("{}")
    assert f"is quantized: it has {name}" in refused(tmp_path)


def test_the_tokenizer_of_another_model_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path) / "tokenizer.json"
    path.write_text(json.dumps({"model": {"vocab": {"a": 0, "b": 48}}, "added_tokens": []}))
    assert "has a tokenizer.json with token 48; its config.json has a vocab_size of 48" in refused(tmp_path)
    path.write_text(json.dumps({"model": {"vocab": {"a": 0}}, "added_tokens": [{"id": 48, "content": "<pad>"}]}))
    require_model(tmp_path, ENGINE)  # a token that was only added is refused when it is used
    path.write_text("{")
    assert "has a tokenizer.json that cannot be read" in refused(tmp_path)


def test_a_directory_without_configuration_is_refused(tmp_path: Path) -> None:
    assert "config.json is not readable" in refused(tmp_path)
    write(tmp_path)
    change(tmp_path, num_hidden_layers=3)
    assert "lacks 9 of the 30 tensors" in refused(tmp_path)


@pytest.mark.parametrize(
    ("family", "written", "said", "message"),
    [
        ("llama", {"num_hidden_layers": 3}, {"num_hidden_layers": 2}, "has 9 tensors that are not in its config.json"),
        ("llama", {}, {"num_hidden_layers": 3}, "lacks 9 of the 30 tensors of its config.json"),
        ("llama", {"attention_bias": True}, {"attention_bias": False}, "8 tensors .* first model.layers.0.self_attn"),
        ("llama", {}, {"intermediate_size": 32}, r"gate_proj.weight of shape \[64, 32\]; .* says \[32, 32\]"),
        ("llama", {}, {"num_key_value_heads": 4}, r"k_proj.weight of shape \[16, 32\]; .* says \[32, 32\]"),
        ("qwen3_moe", {}, {"num_experts": 12, "num_local_experts": 12}, "lacks 24 of .*experts.8.gate_proj.weight"),
        ("qwen3_moe", {}, {"num_experts": 4, "num_local_experts": 4}, r"gate.weight of shape \[8, 32\]; .* \[4, 32\]"),
        ("qwen3_moe", {}, {"moe_intermediate_size": 20}, r"gate_proj.weight of shape \[24, 32\]; .* says \[20, 32\]"),
        ("glm4_moe", {}, {"first_k_dense_replace": 0}, "lacks 29 of the .* first model.layers.0.mlp.gate.weight"),
        ("glm4_moe", {}, {"n_shared_experts": 2}, r"shared_experts.gate_proj.weight of .* \[48, 32\]"),
        ("gpt_oss", {}, {"num_local_experts": 4}, r"router.weight of shape \[8, 32\]; its config.json says \[4, 32\]"),
        ("gpt_oss", {}, {"attention_bias": False}, "8 tensors .*self_attn.k_proj.bias"),
    ],
)  # fmt: skip
def test_a_configuration_that_contradicts_its_weights_is_refused(
    tmp_path: Path, family: str, written: dict[str, Any], said: dict[str, Any], message: str
) -> None:
    change(write(tmp_path, family, **written), **said)
    assert re.search(message, refused(tmp_path)), refused(tmp_path)


def test_a_missing_expert_is_named(tmp_path: Path) -> None:
    rewrite(write(tmp_path, "qwen3_moe"), **{"model.layers.1.mlp.experts.5.up_proj.weight": None})
    assert "lacks 1 of the" in refused(tmp_path)
    assert "first model.layers.1.mlp.experts.5.up_proj.weight of shape [24, 32]" in refused(tmp_path)


def test_a_layer_for_several_tokens_is_neither_loaded_nor_required_in_updates(tmp_path: Path) -> None:
    model = write(tmp_path / "model", "glm4_moe", num_nextn_predict_layers=1)
    rewrite(model, **{"model.layers.2.eh_proj.weight": torch.zeros(32, 64, dtype=torch.bfloat16)})
    tensors = require_model(model, ENGINE)
    assert "model.layers.2.eh_proj.weight" not in tensors.required
    tensors.check(write(tmp_path / "update", "glm4_moe"))
    rewrite(model, **{"model.layers.3.eh_proj.weight": torch.zeros(32, 64)})
    assert "model.layers.3.eh_proj.weight" in refused(model)
