"""A widened model computes what it did, and costs what a large one does."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, LlamaConfig

from tlt_bench.headline.widened import Widening, write_missing
from tlt_bench.shapes import DRAFTER, MODEL
from tlt_common.drafter.architecture import DrafterArchitecture
from tlt_common.drafter.reading import standard_format

HIDDEN, INNER = 32, 48
SHAPE: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "vocab_size": 64,
    "hidden_size": HIDDEN,
    "intermediate_size": INNER,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "rms_norm_eps": 1e-5,
    "tie_word_embeddings": True,
    "max_position_embeddings": 64,
}


@pytest.fixture
def model(tmp_path: Path) -> Path:
    torch.manual_seed(0)
    build: Any = AutoModelForCausalLM.from_config
    made = build(LlamaConfig(**SHAPE)).to(torch.bfloat16)
    for name, weight in made.named_parameters():
        torch.nn.init.normal_(weight, mean=1.0 if "norm" in name else 0.0, std=0.3)
    made.save_pretrained(tmp_path / "small")
    return tmp_path / "small"


@pytest.fixture
def drafter(tmp_path: Path) -> Path:
    form = standard_format(DrafterArchitecture.EAGLE, SHAPE)
    path = tmp_path / "small-drafter"
    path.mkdir()
    sizes = form.tensor_shapes()
    save_file(
        {name: torch.randn(size, dtype=torch.bfloat16) for name, size in sizes.items()}, path / "model.safetensors"
    )
    (path / "config.json").write_text(json.dumps(dict(form.config(SHAPE))))
    return path


def test_it_says_the_same(model: Path, drafter: Path, tmp_path: Path) -> None:
    write_missing(model, drafter, tmp_path, Widening(inner=256), device="cpu")
    ids = torch.arange(40).view(2, 20)
    small, wide = (
        AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32) for path in (model, tmp_path / MODEL)
    )
    with torch.no_grad():
        before, after = (each(ids, output_hidden_states=True) for each in (small, wide))
    torch.testing.assert_close(after.logits, before.logits)
    states = after.hidden_states[-1]
    torch.testing.assert_close(states[..., :HIDDEN], before.hidden_states[-1])
    assert not states[..., HIDDEN:].any()
    assert wide.config.intermediate_size == 256
    assert wide.config.hidden_size == wide.config.num_attention_heads * 8 == 4 * HIDDEN


def test_its_drafter_reads_its_states(model: Path, drafter: Path, tmp_path: Path) -> None:
    write_missing(model, drafter, tmp_path, Widening(inner=256), device="cpu")
    old, new = (load_file(path / "model.safetensors") for path in (drafter, tmp_path / DRAFTER))
    config = json.loads((tmp_path / DRAFTER / "config.json").read_text())
    shapes = standard_format(DrafterArchitecture.EAGLE, {**SHAPE, **config}).tensor_shapes()
    assert {name: tuple(tensor.shape) for name, tensor in new.items()} == shapes
    embedding, state = torch.randn(2, 3, HIDDEN)
    wide = torch.zeros(2, 3, 4 * HIDDEN)
    wide[0, :, :HIDDEN], wide[1, :, :HIDDEN] = embedding, state
    made = torch.cat(tuple(wide), -1) @ new["fc.weight"].float().T
    torch.testing.assert_close(made[:, :HIDDEN], torch.cat((embedding, state), -1) @ old["fc.weight"].float().T)
    assert not made[:, HIDDEN:].any()


def test_an_unknown_tensor_is_refused() -> None:
    with pytest.raises(ValueError, match=r"model\.layers\.0\.mlp\.experts\.weight"):
        Widening().tensor("model.layers.0.mlp.experts.weight", torch.ones(2, 2), torch.ones)
