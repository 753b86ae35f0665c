"""
A model with the shape of a 7B model and a drafter for it, with random weights: for timing on a GPU.

Its output is noise and no draft of its drafter is ever accepted, so acceptance has to be simulated. Run as a script:
`random_model.py DIRECTORY` writes both in a separate process.
"""

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from tlt_common.drafter.architecture import DrafterArchitecture
from tlt_common.drafter.reading import standard_format

SHAPE: Mapping[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "vocab_size": 152064,
    "hidden_size": 3584,
    "intermediate_size": 18944,
    "num_hidden_layers": 28,
    "num_attention_heads": 28,
    "num_key_value_heads": 4,
    "max_position_embeddings": 32768,
    "rms_norm_eps": 1e-6,
    "tie_word_embeddings": False,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "dtype": "bfloat16",
}
"""Qwen2.5-7B's dimensions in a Llama."""

MODEL, DRAFTER = "model", "drafter"
"""Subdirectories of the output directory."""


def write(directory: Path, shape: Mapping[str, Any] = SHAPE, *, seed: int = 0) -> None:
    """Write the model, one file per layer, and the drafter: 15.5 GB at full size."""
    generator = torch.Generator().manual_seed(seed)
    _write_config(directory / MODEL, shape)
    for number, tensors in enumerate(_files(shape)):
        tensors_of_file = {name: _random(size, generator) for name, size in tensors.items()}
        save_file(tensors_of_file, directory / MODEL / f"model-{number:05d}.safetensors", {"format": "pt"})
    drafter = standard_format(DrafterArchitecture.EAGLE, shape)
    _write_config(directory / DRAFTER, drafter.config(shape))
    tensors_of_file = {name: _random(size, generator) for name, size in drafter.tensor_shapes().items()}
    save_file(tensors_of_file, directory / DRAFTER / "model.safetensors", {"format": "pt"})


def _files(shape: Mapping[str, Any]) -> Iterator[dict[str, tuple[int, ...]]]:
    hidden, inner, vocabulary = shape["hidden_size"], shape["intermediate_size"], shape["vocab_size"]
    head = hidden // shape["num_attention_heads"]
    keys = shape["num_key_value_heads"] * head
    outer = (vocabulary, hidden)
    yield {"model.embed_tokens.weight": outer, "lm_head.weight": outer, "model.norm.weight": (hidden,)}
    for layer in range(shape["num_hidden_layers"]):
        prefix = f"model.layers.{layer}."
        yield {
            f"{prefix}self_attn.q_proj.weight": (hidden, hidden),
            f"{prefix}self_attn.k_proj.weight": (keys, hidden),
            f"{prefix}self_attn.v_proj.weight": (keys, hidden),
            f"{prefix}self_attn.o_proj.weight": (hidden, hidden),
            f"{prefix}mlp.gate_proj.weight": (inner, hidden),
            f"{prefix}mlp.up_proj.weight": (inner, hidden),
            f"{prefix}mlp.down_proj.weight": (hidden, inner),
            f"{prefix}input_layernorm.weight": (hidden,),
            f"{prefix}post_attention_layernorm.weight": (hidden,),
        }


def _random(size: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
    if len(size) == 1:
        return torch.ones(size, dtype=torch.bfloat16)
    scale = size[-1] ** -0.5
    drawn: torch.Tensor = torch.randn(size, generator=generator).mul_(scale).to(torch.bfloat16)
    return drawn


def _write_config(directory: Path, config: Mapping[str, Any]) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "config.json").write_text(json.dumps(dict(config), indent=1) + "\n")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
