"""Quantized policies are refused before anything is loaded, and what the refusal names is accepted."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM
from transformers.utils.quantization_config import Mxfp4Config

from tests.families import model_of
from tlt_common.errors import ConfigError, WeightsError
from tlt_worker.checkpoints.policy import ModelTensors
from tlt_worker.engine_config import EngineConfig
from tlt_worker.model.files import require_model

BLOCK = 32
"""Elements of MXFP4 that share a scale."""


@pytest.fixture
def published(tmp_path: Path) -> Path:
    """A gpt-oss as OpenAI publishes it: experts in MXFP4, the rest in bfloat16."""
    plain, directory = tmp_path / "plain", tmp_path / "published"
    model_of("gpt_oss", intermediate_size=BLOCK).to(torch.bfloat16).save_pretrained(plain)
    random, tensors = torch.Generator().manual_seed(0), {}
    for name, tensor in load_file(plain / "model.safetensors").items():
        if name.endswith(("gate_up_proj", "down_proj")):
            experts, inputs, outputs = tensor.shape
            blocks = (experts, outputs, inputs // BLOCK)
            values = torch.randint(0, 256, (*blocks, BLOCK // 2), generator=random)
            tensors[f"{name}_blocks"] = values.to(torch.uint8)
            tensors[f"{name}_scales"] = torch.randint(120, 130, blocks, generator=random).to(torch.uint8)
        else:
            tensors[name] = tensor
    directory.mkdir()
    save_file(tensors, directory / "model.safetensors", metadata={"format": "pt"})
    config = json.loads((plain / "config.json").read_text())
    kept = ["model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens", "lm_head"]
    config["quantization_config"] = {"quant_method": "mxfp4", "modules_to_not_convert": kept}
    (directory / "config.json").write_text(json.dumps(config))
    return directory


def test_gpt_oss_is_served_once_it_is_dequantized_as_the_refusal_says(published: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"quantized \(mxfp4\); .*dequantize=True.*save_original_format=False"):
        require_model(published, EngineConfig())
    with pytest.raises(ConfigError, match=r"quantized \(mxfp4\)"):
        require_model(published, EngineConfig(allow_unlisted=True))
    model = AutoModelForCausalLM.from_pretrained(
        published, quantization_config=Mxfp4Config(dequantize=True), dtype="bfloat16"
    )
    model.save_pretrained(tmp_path / "served", save_original_format=False)
    running = require_model(tmp_path / "served", EngineConfig())
    assert {header.dtype for header in running.headers.values()} == {"BF16"}
    save_file({name: it.contiguous() for name, it in model.state_dict().items()}, tmp_path / "state.safetensors")
    (tmp_path / "update").mkdir()
    (tmp_path / "state.safetensors").rename(tmp_path / "update" / "model.safetensors")
    running.check(tmp_path / "update")


def test_a_quantized_update_is_refused_by_name(published: Path) -> None:
    running = ModelTensors.of(published.parent / "plain")
    with pytest.raises(WeightsError, match=r"down_proj is missing.*down_proj_blocks.* They are quantized"):
        running.check(published)
