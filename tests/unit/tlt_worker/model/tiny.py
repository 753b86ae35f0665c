"""Tiny checkpoints of the served families, as transformers writes them."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    PretrainedConfig,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

SIZES: dict[str, Any] = {
    "vocab_size": 48, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 64,
}  # fmt: skip
CLASSES: dict[str, tuple[Any, Any]] = {
    "llama": (LlamaConfig, LlamaForCausalLM),
    "qwen2": (Qwen2Config, Qwen2ForCausalLM),
    "qwen3": (Qwen3Config, Qwen3ForCausalLM),
}


def config_of(family: str, **options: Any) -> PretrainedConfig:
    """Return a configuration of transformers."""
    more = {"head_dim": 16} if family == "qwen3" else {}
    config: PretrainedConfig = CLASSES[family][0](**{**SIZES, **more, **options})
    return config


@cache
def shapes_of(family: str, **options: Any) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the tensors that transformers would save."""
    model = CLASSES[family][1](config_of(family, **options))
    tied = set(getattr(model, "all_tied_weights_keys", ()) or ())
    return {name: tuple(tensor.shape) for name, tensor in model.state_dict().items() if name not in tied}


def write(directory: Path, family: str = "llama", **options: Any) -> Path:
    """Write a checkpoint."""
    directory.mkdir(exist_ok=True, parents=True)
    config_of(family, architectures=[CLASSES[family][1].__name__], **options).save_pretrained(directory)
    save_file(
        {name: torch.zeros(shape, dtype=torch.bfloat16) for name, shape in shapes_of(family, **options).items()},
        directory / "model.safetensors",
        {"format": "pt"},
    )
    return directory


def change(directory: Path, **values: Any) -> None:
    """Change config.json; a value of None removes the key."""
    path = directory / "config.json"
    known = {**json.loads(path.read_text()), **values}
    path.write_text(json.dumps({key: value for key, value in known.items() if value is not None}))
