"""Rotary position embeddings in config.json, and the types that SGLang and transformers compute alike."""

import math
from collections.abc import Mapping
from typing import Any

DEFAULT_THETA = 10_000.0
DEFAULT_POSITIONS = 8192
SUPPORTED = ("default", "linear", "llama3", "yarn")
"""Types that SGLang serves with the positions that transformers trains with."""
_REFUSED = {
    "dynamic": "SGLang stretches it from the first position on, transformers only beyond the trained context",
    "longrope": "SGLang keeps the keys of a context that outgrows the original one, transformers computes them anew",
}
_STRETCHED = ("llama3", "yarn")
"""Types that depend on the context the model was first trained with."""
_NUMBERS = frozenset({
    "rope_theta", "factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings",
    "beta_fast", "beta_slow", "mscale", "mscale_all_dim", "attention_factor",
})  # fmt: skip
_REQUIRED = {
    "linear": ("factor",),
    "llama3": ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"),
    "yarn": ("factor", "original_max_position_embeddings"),
}
_EQUAL = 1e-6


def rope_parameters(config: Mapping[str, Any]) -> dict[str, Any]:
    """
    Read `rope_parameters` (transformers 5), or `rope_theta` and `rope_scaling` (earlier versions).

    Like transformers, it completes the original context of types that depend on it.
    """
    block: Mapping[str, Any] = config.get("rope_parameters") or config.get("rope_scaling") or {}
    found = {
        **{key: value for key, value in block.items() if key != "type" and value is not None},
        "rope_type": str(block.get("rope_type") or block.get("type") or "default"),
        "rope_theta": float(block.get("rope_theta") or config.get("rope_theta") or DEFAULT_THETA),
    }
    if found["rope_type"] in _STRETCHED:
        found["original_max_position_embeddings"] = (
            config.get("original_max_position_embeddings")
            or found.get("original_max_position_embeddings")
            or config.get("max_position_embeddings")
            or DEFAULT_POSITIONS
        )
    return found


def rope_fields(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return fields of a config.json that every version of transformers reads as `parameters`."""
    scaling = {key: value for key, value in parameters.items() if key != "rope_theta"}
    return {
        "rope_parameters": dict(parameters),
        "rope_theta": parameters["rope_theta"],
        "rope_scaling": None if parameters["rope_type"] == "default" else scaling,
    }


def rope_refusal(parameters: Mapping[str, Any]) -> str:
    """
    Return why a model with these `rope_parameters` is refused, or an empty string.

    A rope is accepted if SGLang, which serves it, and transformers, which trains it, rotate every position equally.
    """
    kind = parameters["rope_type"]
    if kind not in SUPPORTED:
        reason = _REFUSED.get(kind, "it is not known to both SGLang and transformers")
        return (
            f"its rope type is {kind!r}; accepted: {', '.join(SUPPORTED)}, since {reason}. A rope of type 'yarn' "
            "extends a context, too"
        )
    for name in ("mrope_section", "use_fope", "alpha"):
        if parameters.get(name):
            return f"its rope has {name}, which is not supported"
    if (share := parameters.get("partial_rotary_factor", 1.0)) != 1.0:
        return f"its rope's partial_rotary_factor is {share!r}; accepted: 1"
    numbers = {key: value for key, value in parameters.items() if key in _NUMBERS}
    for name in _REQUIRED.get(kind, ()):
        if name not in numbers:
            return f"its rope of type {kind!r} has no {name}; accepted: a positive number"
    for name, value in numbers.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
            return f"its rope's {name} is {value!r}; accepted: a positive number"
    return _yarn_refusal(parameters) if kind == "yarn" else ""


def _yarn_refusal(parameters: Mapping[str, Any]) -> str:
    """
    Return why a yarn rope is refused: SGLang and transformers use different names for the attention scale and ignore
    each other's.
    """
    for name in ("attn_factor", "extrapolation_factor"):
        if parameters.get(name, 1) != 1:
            return f"its rope's {name} is {parameters[name]!r}; accepted: 1, since transformers does not know it"
    given, usual = parameters.get("attention_factor"), attention_scale(parameters)
    if given is not None and abs(given - usual) > _EQUAL:
        return f"its rope's attention_factor is {given!r}; accepted: {usual:.6g}, the one that SGLang computes"
    return ""


def attention_scale(parameters: Mapping[str, Any]) -> float:
    """Return the factor of cosines and sines of a yarn rope, as SGLang and transformers compute it."""
    factor = float(parameters["factor"])

    def scale(mscale: float) -> float:
        return 0.1 * mscale * math.log(factor) + 1.0 if factor > 1 else 1.0

    whole, all_dim = parameters.get("mscale"), parameters.get("mscale_all_dim")
    return scale(1.0) if whole is None or all_dim is None else scale(whole) / scale(all_dim)
