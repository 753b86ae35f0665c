"""
Checkpoints as directories of safetensors: looked at before the engine is touched.

Only headers are read to compare shapes, so that checking a large checkpoint takes milliseconds.
"""

import json
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from tlt_common.errors import WeightsError

DRAFTER_FILE = "model.safetensors"

_FLOATS = frozenset({"BF16", "F16", "F32"})
_OPTIONAL_SUFFIXES = ("lm_head.weight", "rotary_emb.inv_freq")
"""Tied or derived: some tools write them, some do not."""
_SHARED = ("embed_tokens.weight", "lm_head.weight")
"""A drafter uses the target's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorHeader:
    """What a file says of a tensor."""

    dtype: str
    shape: tuple[int, ...]


def read_headers(directory: Path) -> dict[str, TensorHeader]:
    """
    Return the tensors of all safetensors files of a directory, by name.

    Raises:
        WeightsError: No file is there, or one is damaged.
    """
    files = sorted(directory.glob("*.safetensors"))
    if not files:
        raise WeightsError(f"{directory} has no *.safetensors; accepted: a directory with the model's weights")
    headers: dict[str, TensorHeader] = {}
    for file in files:
        headers.update(_file_headers(file))
    return headers


def _file_headers(file: Path) -> dict[str, TensorHeader]:
    try:
        with file.open("rb") as opened:
            (size,) = struct.unpack("<Q", opened.read(8))
            actual = file.stat().st_size
            if size > actual - 8:
                raise WeightsError(f"{file} is cut: its header alone should have {size} bytes")
            entries = json.loads(opened.read(size))
    except (OSError, ValueError, struct.error) as error:
        raise WeightsError(f"{file} is not a readable safetensors file: {error}") from error
    entries.pop("__metadata__", None)
    end = 8 + size + max((entry["data_offsets"][1] for entry in entries.values()), default=0)
    if actual != end:
        raise WeightsError(f"{file} has {actual} bytes where its header announces {end}")
    return {name: TensorHeader(dtype=entry["dtype"], shape=tuple(entry["shape"])) for name, entry in entries.items()}


def compare(running: Mapping[str, TensorHeader], offered: Mapping[str, TensorHeader]) -> None:
    """
    Check that offered weights can replace the running ones.

    Raises:
        WeightsError: A tensor is missing, unknown, of another shape or not a float; names it and both shapes.
    """
    for name, expected in running.items():
        found = offered.get(name)
        if found is None:
            if name.endswith(_OPTIONAL_SUFFIXES):
                continue
            raise WeightsError(f"tensor {name} is missing; the running model has it with shape {list(expected.shape)}")
        _check_tensor(name, found, expected.shape)
    unknown = [name for name in offered if name not in running and not name.endswith(_OPTIONAL_SUFFIXES)]
    if unknown:
        raise WeightsError(f"tensor {unknown[0]} of shape {list(offered[unknown[0]].shape)} is not in the model")


def _check_tensor(name: str, found: TensorHeader, shape: tuple[int, ...]) -> None:
    if found.shape != shape:
        raise WeightsError(f"tensor {name} has shape {list(found.shape)}; the running model has {list(shape)}")
    if found.dtype not in _FLOATS:
        raise WeightsError(f"tensor {name} has type {found.dtype}; accepted: {sorted(_FLOATS)}")


def total_bytes(directory: Path) -> int:
    """Size of the safetensors files of a directory."""
    return sum(file.stat().st_size for file in directory.glob("*.safetensors"))


def loaded_bytes(headers: Mapping[str, TensorHeader], dtype: str) -> int:
    """Memory that tensors take once they are loaded with elements of `dtype`."""
    return sum(prod(header.shape) for header in headers.values()) * (4 if dtype == "float32" else 2)


def drafter_shapes(target: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    """Tensors of an EAGLE drafter for a target of this configuration: fc and one decoder layer."""
    hidden, inner = int(target["hidden_size"]), int(target["intermediate_size"])
    heads = int(target["num_attention_heads"])
    kv_heads = int(target.get("num_key_value_heads") or heads)
    size = int(target.get("head_dim") or hidden // heads)
    layer = "layers.0."
    return {
        "fc.weight": (hidden, 2 * hidden),
        f"{layer}self_attn.q_proj.weight": (heads * size, hidden),
        f"{layer}self_attn.k_proj.weight": (kv_heads * size, hidden),
        f"{layer}self_attn.v_proj.weight": (kv_heads * size, hidden),
        f"{layer}self_attn.o_proj.weight": (hidden, heads * size),
        f"{layer}mlp.gate_proj.weight": (inner, hidden),
        f"{layer}mlp.up_proj.weight": (inner, hidden),
        f"{layer}mlp.down_proj.weight": (hidden, inner),
        f"{layer}post_attention_layernorm.weight": (hidden,),
    }


def load_drafter(directory: Path, target: Mapping[str, Any]) -> list[tuple[str, Tensor]]:
    """
    Read a drafter and check it against the target.

    `fc.bias` is added as zeros if the file has none: SGLang's drafter has one, and it must not keep an old value.

    Raises:
        WeightsError: Unreadable, a tensor missing, unknown, of another shape, or not finite.
    """
    file = directory / DRAFTER_FILE
    headers = {name: header for name, header in _file_headers(file).items() if name not in _SHARED}
    shapes = drafter_shapes(target)
    bias_shape = (int(target["hidden_size"]),)
    expected = {name: TensorHeader(dtype="BF16", shape=shape) for name, shape in shapes.items()}
    if "fc.bias" in headers:
        expected["fc.bias"] = TensorHeader(dtype="BF16", shape=bias_shape)
    compare(expected, headers)
    try:
        tensors = load_file(file)
    except (OSError, SafetensorError) as error:
        raise WeightsError(f"{file} is not readable: {error}") from error
    kept = {name: tensor for name, tensor in tensors.items() if name in expected}
    _check_finite(kept.items(), file)
    kept.setdefault("fc.bias", torch.zeros(bias_shape, dtype=kept["fc.weight"].dtype))
    return list(kept.items())


def _check_finite(tensors: Iterable[tuple[str, Tensor]], file: Path) -> None:
    for name, tensor in tensors:
        if not bool(torch.isfinite(tensor).all()):
            raise WeightsError(f"tensor {name} of {file} has values that are not finite")


def write_blank_drafter(directory: Path, target: Mapping[str, Any], dtype: torch.dtype) -> None:
    """Write a drafter of zeros: the engine needs one of the right shape before the first real one is trained."""
    directory.mkdir(parents=True, exist_ok=True)
    tensors = {name: torch.zeros(shape, dtype=dtype) for name, shape in drafter_shapes(target).items()}
    tensors["layers.0.post_attention_layernorm.weight"].fill_(1.0)
    tensors["fc.bias"] = torch.zeros(int(target["hidden_size"]), dtype=dtype)
    save_file(tensors, directory / DRAFTER_FILE)
    (directory / "config.json").write_text(json.dumps(drafter_config(target), indent=1))


def drafter_config(target: Mapping[str, Any]) -> dict[str, Any]:
    """Return the configuration of an EAGLE drafter for a target: a Llama of one layer, whatever the target's family."""
    kept = (
        "vocab_size", "hidden_size", "intermediate_size", "num_attention_heads", "num_key_value_heads", "head_dim",
        "rms_norm_eps", "rope_theta", "rope_scaling", "rope_parameters", "hidden_act", "max_position_embeddings",
        "bos_token_id", "eos_token_id", "pad_token_id", "torch_dtype", "dtype",
    )  # fmt: skip
    return {
        **{key: target[key] for key in kept if key in target},
        "architectures": ["LlamaForCausalLMEagle"],
        "model_type": "llama",
        "num_hidden_layers": 1,
        # Also for a tied target: SGLang puts the target's embedding and head in place one after the other, and fails
        # if they are one module.
        "tie_word_embeddings": False,
        "attention_bias": False,
        "mlp_bias": False,
    }
