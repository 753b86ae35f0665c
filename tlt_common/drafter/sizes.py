"""Reads the sizes that all formats have from a config.json, and checks what every drafter must satisfy."""

import math
from dataclasses import replace
from typing import Any, Final, TypeVar

from tlt_common.drafter.format import DrafterFormat, Json
from tlt_common.drafter.published import WAY_OUT
from tlt_common.drafter.rope import DEFAULT_POSITIONS, rope_parameters, rope_refusal
from tlt_common.errors import WeightsError
from tlt_common.weights.tied_head import is_tied

DRAFT_VOCABULARY: Final = 32_000
"""Default number of tokens to draft from, as in published EAGLE-3 drafters."""

F = TypeVar("F", bound=DrafterFormat)

_SIZES = (
    "vocab_size", "hidden_size", "intermediate_size", "heads", "kv_heads", "head_dim", "draft_vocab_size",
    "max_positions",
)  # fmt: skip


def sizes_of(config: Json, target: Json) -> dict[str, Any]:
    """Return the fields that the config.json of a drafter or its target gives to all formats."""
    hidden, heads = int(config["hidden_size"]), int(config["num_attention_heads"])
    return {
        "vocab_size": int(config["vocab_size"]),
        "hidden_size": hidden,
        "intermediate_size": int(config["intermediate_size"]),
        "heads": heads,
        "kv_heads": int(config.get("num_key_value_heads") or heads),
        "head_dim": int(config.get("head_dim") or hidden // heads),
        "norm_eps": float(config.get("rms_norm_eps", 1e-6)),
        "rope": rope_parameters(config),
        "is_target_tied": is_tied(target),
        "max_positions": int(config.get("max_position_embeddings") or DEFAULT_POSITIONS),
    }


def require_sizes(form: DrafterFormat) -> None:
    """
    Raises:
        ValueError: A size is not positive.
    """
    for name in _SIZES:
        if (size := getattr(form, name)) < 1:
            raise ValueError(f"{name} is {size}; accepted: 1 and above")


def require_same_target(drafter: Json, target: Json) -> None:
    """
    Check the properties that any drafter shares with its target, and the parts of a layer common to all architectures.

    Raises:
        WeightsError: The drafter belongs to another target, or its activation or rope is not supported.
    """
    for name in ("hidden_size", "vocab_size"):
        if int(drafter[name]) != int(target[name]):
            raise WeightsError(f"the drafter's {name} is {drafter[name]}; accepted: {target[name]}, as in its target")
    if (activation := drafter.get("hidden_act", "silu")) != "silu":
        raise WeightsError(f"the drafter's hidden_act is {activation!r}; accepted: 'silu'. {WAY_OUT}")
    if reason := rope_refusal(rope_parameters(drafter)):
        raise WeightsError(f"the drafter cannot be run: {reason}")


def runnable(form: F) -> F:
    """
    Return the Llama layer format closest to the target's layers that transformers and SGLang accept.

    It rotates whole heads even if the target rotates parts, and its heads divide its hidden size even if the target's
    do not (GLM-4.5 has 96 for 4096).
    """
    rope = {name: value for name, value in form.rope.items() if name != "partial_rotary_factor"}
    if form.hidden_size % form.heads == 0:
        return replace(form, rope=rope)
    heads = max(1, form.hidden_size // form.head_dim)
    while form.hidden_size % heads:
        heads -= 1
    return replace(form, rope=rope, heads=heads, kv_heads=math.gcd(heads, form.kv_heads))
