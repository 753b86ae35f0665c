"""A policy checkpoint of a few kilobytes, for the trainer and for readers of config.json."""

import json
from pathlib import Path
from typing import Any

from tests.fuzz import safetensors

CONFIG: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "vocab_size": 24,
    "hidden_size": 8,
    "intermediate_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 4,
    "max_position_embeddings": 64,
    "rms_norm_eps": 1e-6,
    "hidden_act": "silu",
    "tie_word_embeddings": False,
}
HEADER = safetensors.header_of({"model.embed_tokens.weight": ("F32", (24, 8)), "lm_head.weight": ("F32", (24, 8))})


def write(directory: Path) -> None:
    """Write its files."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "config.json").write_text(json.dumps(CONFIG))
    (directory / "model.safetensors").write_bytes(safetensors.encoded(HEADER, 2 * 4 * 24 * 8))
