"""config.json of models with the shapes of public ones, and of reduced ones. Imports no torch."""

from collections.abc import Mapping
from typing import Any, Final

Shape = Mapping[str, Any]

_COMMON: Final[Shape] = {
    "max_position_embeddings": 32768,
    "rms_norm_eps": 1e-6,
    "rope_theta": 1e6,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "dtype": "bfloat16",
}
SHAPE: Final[Shape] = {
    **_COMMON,
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "vocab_size": 152064,
    "hidden_size": 3584,
    "intermediate_size": 18944,
    "num_hidden_layers": 28,
    "num_attention_heads": 28,
    "num_key_value_heads": 4,
    "tie_word_embeddings": False,
}
"""Qwen2.5-7B's dimensions in a Llama."""
SHAPES: Final[Mapping[str, Shape]] = {
    "0.5b": {
        **SHAPE,
        "vocab_size": 151936,
        "hidden_size": 896,
        "intermediate_size": 4864,
        "num_hidden_layers": 24,
        "num_attention_heads": 14,
        "num_key_value_heads": 2,
        "tie_word_embeddings": True,
    },
    "7b": SHAPE,
    "30b-a3b": {
        **_COMMON,
        "architectures": ["Qwen3MoeForCausalLM"],
        "model_type": "qwen3_moe",
        "vocab_size": 151936,
        "hidden_size": 2048,
        "intermediate_size": 6144,
        "num_hidden_layers": 48,
        "num_attention_heads": 32,
        "num_key_value_heads": 4,
        "head_dim": 128,
        "tie_word_embeddings": False,
        "attention_bias": False,
        "num_experts": 128,
        "num_experts_per_tok": 8,
        "moe_intermediate_size": 768,
        "norm_topk_prob": True,
        "decoder_sparse_step": 1,
        "mlp_only_layers": [],
    },
}
"""By name: Qwen2.5-0.5B, Qwen2.5-7B and Qwen3-30B-A3B."""
_REDUCED: Final = {
    "vocab_size": 512,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 8,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "num_experts": 8,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 32,
}

MODEL, DRAFTER, DRAFTER3 = "model", "drafter", "drafter-eagle3"
"""Subdirectories of the output directory: the model, and its EAGLE and EAGLE-3 drafters."""


def reduced(shape: Shape) -> Shape:
    """Return the same family in a reduced size for a CPU."""
    return {**shape, **{key: size for key, size in _REDUCED.items() if key in shape}}
