"""Rotary position embedding as stated in config.json."""

from collections.abc import Mapping
from typing import Any

DEFAULT_THETA = 10_000.0


def rope_parameters(config: Mapping[str, Any]) -> dict[str, Any]:
    """Read `rope_parameters` (transformers 5), or `rope_theta` and `rope_scaling` (earlier versions)."""
    block: Mapping[str, Any] = config.get("rope_parameters") or config.get("rope_scaling") or {}
    return {
        **{key: value for key, value in block.items() if key != "type" and value is not None},
        "rope_type": str(block.get("rope_type") or block.get("type") or "default"),
        "rope_theta": float(block.get("rope_theta") or config.get("rope_theta") or DEFAULT_THETA),
    }


def rope_fields(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return fields of a config.json that every version of transformers reads as `parameters`."""
    scaling = {key: value for key, value in parameters.items() if key != "rope_theta"}
    return {
        "rope_parameters": dict(parameters),
        "rope_theta": parameters["rope_theta"],
        "rope_scaling": None if parameters["rope_type"] == "default" else scaling,
    }
