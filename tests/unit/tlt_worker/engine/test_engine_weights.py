"""Checkpoints are judged by their headers, drafters by their values too."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from tlt_common.errors import ConfigError, WeightsError
from tlt_worker.engine.weights import (
    DRAFTER_FILE,
    compare,
    drafter_config,
    load_drafter,
    read_headers,
    total_bytes,
    write_blank_drafter,
)
from tlt_worker.model_config import read_config

TARGET: dict[str, Any] = {
    "vocab_size": 16, "hidden_size": 8, "intermediate_size": 12, "num_attention_heads": 4, "num_key_value_heads": 2,
    "num_hidden_layers": 5, "architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "rope_theta": 1e6,
}  # fmt: skip


def write(directory: Path, **tensors: torch.Tensor) -> Path:
    directory.mkdir(exist_ok=True)
    save_file(tensors, directory / "model.safetensors")
    return directory


def test_headers_say_what_files_hold(tmp_path: Path) -> None:
    directory = write(tmp_path, a=torch.zeros(2, 3), b=torch.zeros(4, dtype=torch.bfloat16))
    headers = read_headers(directory)
    assert {name: (header.dtype, header.shape) for name, header in headers.items()} == {
        "a": ("F32", (2, 3)),
        "b": ("BF16", (4,)),
    }
    assert total_bytes(directory) == (directory / "model.safetensors").stat().st_size


@pytest.mark.parametrize("kept_bytes", [0, 4, 60, -1])
def test_damaged_files_are_refused(tmp_path: Path, kept_bytes: int) -> None:
    file = write(tmp_path, a=torch.zeros(20)) / "model.safetensors"
    file.write_bytes(file.read_bytes()[:kept_bytes])
    with pytest.raises(WeightsError, match=r"model\.safetensors"):
        read_headers(tmp_path)


def test_an_empty_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(WeightsError, match="safetensors"):
        read_headers(tmp_path)
    with pytest.raises(ConfigError, match=r"config\.json"):
        read_config(tmp_path)


@pytest.mark.parametrize(
    ("offered", "said"),
    [
        ({"a": torch.zeros(2, 4)}, r"a has shape \[2, 4\]; the running model has \[2, 3\]"),
        ({}, r"a is missing.*\[2, 3\]"),
        ({"a": torch.zeros(2, 3), "c": torch.zeros(1)}, r"c of shape \[1\] is not in the model"),
        ({"a": torch.zeros(2, 3, dtype=torch.int64)}, "a has type I64"),
    ],
)
def test_weights_that_do_not_fit_are_refused_by_name(
    tmp_path: Path, offered: dict[str, torch.Tensor], said: str
) -> None:
    running = read_headers(write(tmp_path / "running", a=torch.zeros(2, 3), b=torch.zeros(1)))
    with pytest.raises(WeightsError, match=said):
        compare(running, read_headers(write(tmp_path / "offered", b=torch.zeros(1), **offered)))


def test_weights_of_another_float_type_fit(tmp_path: Path) -> None:
    running = read_headers(write(tmp_path / "running", a=torch.zeros(2, 3)))
    compare(running, read_headers(write(tmp_path / "offered", a=torch.zeros(2, 3, dtype=torch.bfloat16))))


def test_a_tied_head_may_be_there_or_not(tmp_path: Path) -> None:
    bare = read_headers(write(tmp_path / "bare", a=torch.zeros(1)))
    full = read_headers(write(tmp_path / "full", **{"a": torch.zeros(1), "lm_head.weight": torch.zeros(3)}))
    compare(bare, full)
    compare(full, bare)


def test_a_blank_drafter_loads_as_a_drafter(tmp_path: Path) -> None:
    write_blank_drafter(tmp_path, TARGET, torch.bfloat16)
    tensors = dict(load_drafter(tmp_path, TARGET))
    assert tensors["fc.weight"].shape == (8, 16)
    assert tensors["layers.0.self_attn.k_proj.weight"].shape == (4, 8)
    config = json.loads((tmp_path / "config.json").read_text())
    assert config == drafter_config(TARGET)
    assert (config["architectures"], config["num_hidden_layers"]) == (["LlamaForCausalLMEagle"], 1)


def test_a_drafter_without_bias_gets_a_bias_of_zeros(tmp_path: Path) -> None:
    write_blank_drafter(tmp_path, TARGET, torch.float32)
    tensors = load_file(tmp_path / DRAFTER_FILE)
    del tensors["fc.bias"]
    tensors["embed_tokens.weight"] = torch.ones(16, 8)
    save_file(tensors, tmp_path / DRAFTER_FILE)
    loaded = dict(load_drafter(tmp_path, TARGET))
    assert loaded["fc.bias"].tolist() == [0.0] * 8
    assert "embed_tokens.weight" not in loaded


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"fc.weight": torch.zeros(8, 8)}, r"fc.weight has shape \[8, 8\]"),
        ({"fc.weight": torch.full((8, 16), float("nan"))}, "fc.weight.*not finite"),
        ({"layers.1.mlp.up_proj.weight": torch.zeros(2)}, "layers.1"),
    ],
)
def test_unfit_drafters_are_refused(tmp_path: Path, change: dict[str, torch.Tensor], said: str) -> None:
    write_blank_drafter(tmp_path, TARGET, torch.float32)
    save_file({**load_file(tmp_path / DRAFTER_FILE), **change}, tmp_path / DRAFTER_FILE)
    with pytest.raises(WeightsError, match=said):
        load_drafter(tmp_path, TARGET)
