"""What a draft layer looks like for a given policy. No torch here."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tlt_common.errors import ConfigError

ROPE_TYPES = ("default", "linear", "llama3")
"""Rotary embeddings we compute as SGLang does."""

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rope:
    """Rotary position embedding. The last four numbers are used by the types that need them."""

    theta: float = 10_000.0
    kind: str = "default"
    factor: float = 1.0
    low_freq_factor: float = 1.0
    high_freq_factor: float = 4.0
    original_positions: int = 8192


@dataclass(frozen=True, slots=True, kw_only=True)
class DrafterShape:
    """Sizes of a draft layer; those of one decoder layer of its policy."""

    vocab_size: int
    hidden_size: int
    intermediate_size: int
    heads: int
    kv_heads: int
    head_dim: int
    norm_eps: float
    max_positions: int
    tied: bool
    """The policy's head is its embedding."""
    rope: Rope


def shape_of(config: Json) -> DrafterShape:
    """
    Read a policy's config.json (Llama, Qwen2, Qwen3 and what is built like them).

    Raises:
        ConfigError: A size is missing, or the policy is built in a way no draft layer of ours matches.
    """
    try:
        heads, hidden = int(config["num_attention_heads"]), int(config["hidden_size"])
        shape = DrafterShape(
            vocab_size=int(config["vocab_size"]),
            hidden_size=hidden,
            intermediate_size=int(config["intermediate_size"]),
            heads=heads,
            kv_heads=int(config.get("num_key_value_heads") or heads),
            head_dim=int(config.get("head_dim") or hidden // heads),
            norm_eps=float(config.get("rms_norm_eps", 1e-6)),
            max_positions=int(config.get("max_position_embeddings", 8192)),
            tied=bool(config.get("tie_word_embeddings", False)),
            rope=_rope_of(config),
        )
    except KeyError as error:
        raise ConfigError(f"the policy's config.json has no {error.args[0]}", field=str(error.args[0])) from error
    activation = config.get("hidden_act", "silu")
    if activation != "silu":
        raise ConfigError(f"the policy's hidden_act is {activation!r}; accepted: 'silu'", field="hidden_act")
    return shape


def _rope_of(config: Json) -> Rope:
    # transformers 5 writes one block, earlier versions a number and an optional block.
    block: Json = config.get("rope_parameters") or config.get("rope_scaling") or {}
    kind = str(block.get("rope_type") or block.get("type") or "default")
    if kind not in ROPE_TYPES:
        raise ConfigError(
            f"the policy's rope type is {kind!r}; accepted: {', '.join(ROPE_TYPES)}", field="rope_scaling"
        )
    return Rope(
        theta=float(block.get("rope_theta") or config.get("rope_theta") or 10_000.0),
        kind=kind,
        factor=float(block.get("factor", 1.0)),
        low_freq_factor=float(block.get("low_freq_factor", 1.0)),
        high_freq_factor=float(block.get("high_freq_factor", 4.0)),
        original_positions=int(block.get("original_max_position_embeddings", 8192)),
    )


def config_of(shape: DrafterShape) -> dict[str, Any]:
    """Write the config.json from which SGLang builds the draft model."""
    rope: dict[str, Any] | None = None
    if shape.rope.kind == "linear":
        rope = {"rope_type": "linear", "factor": shape.rope.factor}
    elif shape.rope.kind == "llama3":
        rope = {
            "rope_type": "llama3",
            "factor": shape.rope.factor,
            "low_freq_factor": shape.rope.low_freq_factor,
            "high_freq_factor": shape.rope.high_freq_factor,
            "original_max_position_embeddings": shape.rope.original_positions,
        }
    return {
        "architectures": ["LlamaForCausalLMEagle"],
        "model_type": "llama",
        "vocab_size": shape.vocab_size,
        "hidden_size": shape.hidden_size,
        "intermediate_size": shape.intermediate_size,
        "num_hidden_layers": 1,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads,
        "head_dim": shape.head_dim,
        "rms_norm_eps": shape.norm_eps,
        "rope_theta": shape.rope.theta,
        "rope_scaling": rope,
        "hidden_act": "silu",
        "max_position_embeddings": shape.max_positions,
        "tie_word_embeddings": shape.tied,
        "attention_bias": False,
        "mlp_bias": False,
        "torch_dtype": "bfloat16",
    }
