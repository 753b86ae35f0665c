"""Tiny checkpoints of the families in the table, made and written by transformers. One family is one row."""

import json
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from transformers import AutoConfig, AutoModelForCausalLM, PretrainedConfig

from tlt_common import mimo
from tlt_worker.checkpoints.model_config import read_config
from tlt_worker.checkpoints.policy import read_headers
from tlt_worker.model.families import FAMILIES

SIZES: Mapping[str, Any] = {
    "vocab_size": 48, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 64, "bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 2,
}  # fmt: skip
OWN: Mapping[str, Mapping[str, Any]] = {
    "llama": {},
    "qwen2": {},
    "qwen3": {"head_dim": 16},
    "qwen3_moe": {"head_dim": 16, "moe_intermediate_size": 24, "num_experts": 8, "num_experts_per_tok": 2},
    "glm4_moe": {
        "head_dim": 16, "moe_intermediate_size": 24, "n_routed_experts": 8, "num_experts_per_tok": 2,
        "num_attention_heads": 6, "n_shared_experts": 1, "first_k_dense_replace": 1, "use_qk_norm": True,
        "attention_bias": True, "routed_scaling_factor": 1.5,
    },
    "mimo": {"num_nextn_predict_layers": 1},
    "gpt_oss": {
        "head_dim": 16, "intermediate_size": 24, "num_local_experts": 8, "num_experts_per_tok": 2, "sliding_window": 8,
        "initial_context_length": 32,
        "rope_parameters": {
            "rope_type": "yarn", "factor": 2.0, "original_max_position_embeddings": 32, "rope_theta": 150000.0,
            "beta_fast": 32.0, "beta_slow": 1.0, "truncate": False,
        },
    },
}  # fmt: skip
"""What a family's configuration says besides sizes, by `model_type`."""
OTHER: Mapping[str, Mapping[str, Any]] = {
    "llama": {"attention_bias": True},
    "qwen2": {},
    "qwen3": {"head_dim": 12, "attention_bias": True},
    "qwen3_moe": {
        "head_dim": 12, "attention_bias": True, "moe_intermediate_size": 40, "num_experts": 6, "num_experts_per_tok": 3,
        "norm_topk_prob": True,
    },
    "glm4_moe": {
        "head_dim": 12, "attention_bias": False, "moe_intermediate_size": 40, "n_routed_experts": 12,
        "num_experts_per_tok": 3, "num_attention_heads": 4, "n_shared_experts": 2, "first_k_dense_replace": 0,
        "use_qk_norm": False, "routed_scaling_factor": 0.75, "norm_topk_prob": False, "n_group": 3, "topk_group": 2,
        "num_nextn_predict_layers": 0,
        "rope_parameters": {"rope_type": "default", "rope_theta": 500.0, "partial_rotary_factor": 1.0},
        "partial_rotary_factor": 1.0,
    },
    "mimo": {"num_nextn_predict_layers": 0},
    "gpt_oss": {
        "head_dim": 12, "intermediate_size": 40, "num_local_experts": 6, "num_experts_per_tok": 3, "sliding_window": 5,
        "swiglu_limit": 0.25, "attention_bias": False,
        "rope_parameters": {"rope_type": "default", "rope_theta": 500.0},
    },
}  # fmt: skip
"""Another value of each key that is said to be tried, besides `OTHER_SIZES`."""
OTHER_SIZES: Mapping[str, Any] = {
    "vocab_size": 40, "hidden_size": 48, "intermediate_size": 80, "num_hidden_layers": 3, "num_attention_heads": 8,
    "num_key_value_heads": 4, "rms_norm_eps": 0.05, "tie_word_embeddings": True, "max_position_embeddings": 96,
    "rope_parameters": {"rope_type": "default", "rope_theta": 500.0},
}  # fmt: skip
mimo.register_model()
TYPES = tuple(row.model_type for row in FAMILIES.values())


def config_of(family: str, /, **options: Any) -> PretrainedConfig:
    """Return a configuration of transformers."""
    architecture = next(row.architecture for row in FAMILIES.values() if row.model_type == family)
    values = {**SIZES, **OWN[family], "architectures": [architecture], **options}
    config: PretrainedConfig = AutoConfig.for_model(family, **values)
    return config


def others(family: str) -> dict[str, Any]:
    """Return another value of each key."""
    fixed = next(row.fixed for row in FAMILIES.values() if row.model_type == family)
    return {name: value for name, value in {**OTHER_SIZES, **OTHER[family]}.items() if name not in fixed}


def written(family: str, /, **options: Any) -> dict[str, Any]:
    """Return a config.json as transformers writes it."""
    with tempfile.TemporaryDirectory() as directory:
        config_of(family, **options).save_pretrained(directory)
        return read_config(Path(directory))


def stated(family: str, /, **options: Any) -> dict[str, Any]:
    """Return a config.json with some values changed after it was written."""
    return {**written(family), **options}


def model_of(family: str, /, **options: Any) -> Any:
    """Return a model with the weights that transformers begins with."""
    return AutoModelForCausalLM.from_config(config_of(family, **options))  # type: ignore[no-untyped-call] # transformers


def shapes_of(family: str, /, **options: Any) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the tensors that transformers saves."""
    return _shapes_of(family, json.dumps(options))


@cache
def _shapes_of(family: str, options: str) -> dict[str, tuple[int, ...]]:
    with tempfile.TemporaryDirectory() as directory:
        model_of(family, **json.loads(options)).save_pretrained(directory)
        return {name: header.shape for name, header in read_headers(Path(directory)).items()}
