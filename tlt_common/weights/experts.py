"""
The two layouts in which the experts of a layer are sent. Pure.

transformers 5 holds them stacked, as `state_dict()` returns them: `mlp.experts.gate_up_proj` [E, 2I, H] and
`mlp.experts.down_proj` [E, H, I]. Checkpoints hold them individually, as `save_pretrained` and Megatron's exporters
write them: `mlp.experts.N.gate_proj.weight` [I, H], `up_proj.weight` [I, H], `down_proj.weight` [H, I]. Every tensor of
the second layout is a contiguous part of one of the first, so the same bytes serve for both and nothing is copied.
Sources: `qwen2_moe` in transformers/conversion_mapping.py; `load_weights` of qwen3_moe, glm4_moe and gpt_oss in SGLang.

SGLang's classes for `SERVED_APART` only know the names of the second layout and silently skip the others. gpt-oss is
always stacked, in its own layout: transposed, gate and up interleaved, with biases.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from math import prod
from typing import Any

from tlt_common.errors import WeightsError
from tlt_common.weights.safetensors_file import DTYPE_BYTES, Piece

SERVED_APART = frozenset({"qwen3_moe", "glm4_moe"})
"""`model_type` of the families whose experts SGLang loads apart, and transformers holds stacked."""
_STACKED = re.compile(r"(.*\.mlp\.experts)\.(gate_up_proj|down_proj)")
_APART = re.compile(r".*\.mlp\.experts\.\d+\..+")
_PROJECTIONS = {"gate_up_proj": ("gate_proj", "up_proj"), "down_proj": ("down_proj",)}


def are_served_apart(config: Mapping[str, Any]) -> bool:
    """Return whether SGLang loads the experts of a model with this config.json individually."""
    return config.get("model_type") in SERVED_APART


def is_stacked(name: str) -> bool:
    """Return whether a tensor holds all experts of a layer."""
    return _STACKED.fullmatch(name) is not None


def is_apart(name: str) -> bool:
    """Return whether a tensor belongs to a single expert."""
    return _APART.fullmatch(name) is not None


def parts_of(name: str, shape: tuple[int, ...]) -> dict[str, tuple[int, ...]]:
    """
    Return the names and common shape of the parts of a stacked tensor, in the order of their elements; none if it is
    not stacked.

    Raises:
        WeightsError: The tensor does not have the dimensions of a stack.
    """
    if (found := _STACKED.fullmatch(name)) is None:
        return {}
    experts, projections = found[1], _PROJECTIONS[found[2]]
    if len(shape) != 3 or shape[1] % len(projections):
        accepted = f"[experts, {'2 * ' if len(projections) > 1 else ''}rows, columns]"
        raise WeightsError(f"tensor {name} has shape {list(shape)}; accepted: {accepted}, as transformers stacks it")
    part = shape[1] // len(projections), shape[2]
    return {f"{experts}.{expert}.{projection}.weight": part for expert in range(shape[0]) for projection in projections}


def stack_shape(name: str, known: Mapping[str, tuple[int, ...]]) -> tuple[int, ...] | None:
    """Return the shape of a stacked tensor of experts whose individual shapes are `known`; None if there are none."""
    if (found := _STACKED.fullmatch(name)) is None:
        return None
    experts, projections = found[1], _PROJECTIONS[found[2]]
    count = 0
    while f"{experts}.{count}.{projections[0]}.weight" in known:
        count += 1
    if not count:
        return None
    rows, columns = known[f"{experts}.0.{projections[0]}.weight"]
    return count, len(projections) * rows, columns


def require_one_spelling(names: Iterable[str]) -> None:
    """
    Check that experts are sent in one layout: with a mixture, part of one would be lost.

    Raises:
        WeightsError: They are sent in both; the message names a tensor of each.
    """
    stacked = apart = ""
    for name in names:
        if not stacked and is_stacked(name):
            stacked = name
        elif not apart and is_apart(name):
            apart = name
        if stacked and apart:
            raise WeightsError(f"experts were sent both stacked, as {stacked}, and apart, as {apart}; send one of them")


def require_stacks(
    shapes: Iterable[tuple[str, tuple[int, ...]]], known: Mapping[str, tuple[int, ...]], *, whose: str
) -> None:
    """
    Check that stacked tensors hold exactly the known experts.

    Args:
        shapes: Names and shapes of tensors; those that are not stacked are ignored.
        known: Shapes of the individual experts, by name.
        whose: Owner of these experts, for messages.

    Raises:
        WeightsError: A stacked tensor does not; the message names it.
    """
    for name, shape in shapes:
        if (wanted := stack_shape(name, known)) is not None and shape != wanted:
            counted = f"; {whose} has {wanted[0]} experts" if shape[:1] != wanted[:1] else ""
            raise WeightsError(
                f"tensor {name} has shape {list(shape)}; the experts of {whose}, stacked, have {list(wanted)}{counted}"
            )


def entries_apart(entries: Iterable[Piece]) -> Iterator[Piece]:
    """
    Yield tensors in files with stacked experts split into parts of their bytes.

    Raises:
        WeightsError: A stacked tensor does not have the dimensions of a stack.
    """
    for entry in entries:
        parts = parts_of(entry.name, entry.shape)
        if not parts:
            yield entry
        position = entry.position
        for name, shape in parts.items():
            length = prod(shape) * DTYPE_BYTES[entry.dtype]
            yield replace(entry, name=name, shape=shape, position=position, length=length)
            position += length
