"""
A drafter as files that SGLang loads: model.safetensors, config.json, and our meta.json.

Only trained tensors and a map of draft tokens are written; the rest comes from the policy. Biases of SGLang's layers
are written as zeros, since SGLang would leave missing ones uninitialized.
"""

import io
import json
import pickle
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from tlt_common.documents import json_of
from tlt_common.drafter.format import DrafterFormat
from tlt_common.drafter.meta import CONFIG_FILE, META_FILE, WEIGHTS_FILE, DrafterMeta
from tlt_common.drafter.published import WAY_OUT
from tlt_common.drafter.tensors import MAP
from tlt_common.errors import WeightsError
from tlt_trainer.drafter.vocabulary import require_tokens

Weights = Mapping[str, Tensor]
"""Trained tensors by their names in SGLang's checkpoint, and the map if there is one."""


def shapes(form: DrafterFormat) -> dict[str, tuple[int, ...]]:
    """Return the shape of each tensor of `Weights`."""
    return form.tensor_shapes() | ({MAP: (form.draft_vocab_size,)} if form.has_map else {})


def to_files(weights: Weights, form: DrafterFormat, meta: DrafterMeta) -> dict[str, bytes]:
    """
    Return the files of a drafter in bfloat16, as engines serve it. The file that marks completeness comes last.

    Raises:
        WeightsError: A tensor, which the message names, is not finite.
    """
    tensors = {form.published_name(name): _served(tensor) for name, tensor in weights.items()}
    for name, tensor in tensors.items():
        if not bool(tensor.isfinite().all()):
            raise WeightsError(f"drafter tensor {name} is not finite")
    for name in form.written_biases:
        tensors[name] = torch.zeros(form.bias_shapes()[name], dtype=torch.bfloat16)
    return {
        WEIGHTS_FILE: save(tensors, {"format": "pt"}),
        CONFIG_FILE: json.dumps(form.config({"torch_dtype": "bfloat16"}), indent=2).encode(),
        META_FILE: json.dumps(asdict(meta), indent=2).encode(),
    }


def _served(tensor: Tensor) -> Tensor:
    dtype = torch.bfloat16 if tensor.is_floating_point() else tensor.dtype
    return tensor.detach().to("cpu", dtype).contiguous()


def from_files(files: Mapping[str, bytes], form: DrafterFormat) -> dict[str, Tensor]:
    """
    Read a drafter's trained tensors in float32, and its map in int64.

    Raises:
        WeightsError: A tensor, which the message names, is missing, unknown, of another shape, or not finite; the map
            leaves the vocabulary or repeats a token; or a bias is not zero, since the trainer's layers have none.
    """
    try:
        tensors = {form.canonical_name(name): tensor for name, tensor in load(files[WEIGHTS_FILE]).items()}
    except (KeyError, SafetensorError) as error:
        raise WeightsError(f"the drafter's {WEIGHTS_FILE} is missing or unreadable: {error}") from error
    for name in form.bias_shapes().keys() & tensors.keys():
        if bool(tensors[name].any()):
            raise WeightsError(f"drafter tensor {name} is not zero; it must be zero or absent", field=name)
    require_tensors(tensors, form)
    return {name: tensors[name].long() if name == MAP else tensors[name].float() for name in shapes(form)}


def require_tensors(tensors: dict[str, Tensor], form: DrafterFormat) -> None:
    """
    Check a drafter's tensors, by canonical name. Adds an identity map if it is omitted.

    Raises:
        WeightsError: A tensor, which the message names, is missing, unknown, of another shape or not finite; or the map
            leaves the vocabulary or repeats a token.
    """
    known = {*shapes(form), *form.bias_shapes(), *form.shared_shapes()}
    if unknown := sorted(name for name in tensors if name not in known and not form.ignores(name)):
        raise WeightsError(f"drafter tensor {unknown[0]} is not known; accepted: {', '.join(shapes(form))}. {WAY_OUT}")
    if form.has_map and form.draft_vocab_size == form.vocab_size:
        tensors.setdefault(MAP, torch.zeros(form.vocab_size, dtype=torch.int64))
    biases = {name: shape for name, shape in form.bias_shapes().items() if name in tensors}
    for name, expected in (shapes(form) | biases).items():
        tensor = tensors.get(name)
        if tensor is None or tuple(tensor.shape) != expected:
            found = "missing" if tensor is None else tuple(tensor.shape)
            raise WeightsError(f"drafter tensor {name} is {found}; accepted: {expected}")
        if not bool(tensor.isfinite().all()):
            raise WeightsError(f"drafter tensor {name} is not finite")
    if form.has_map:
        require_tokens(tensors[MAP].long(), form.vocab_size)


def config_of(files: Mapping[str, bytes]) -> dict[str, Any]:
    """
    Return the config.json among a drafter's files.

    Raises:
        WeightsError: It is missing or not a JSON object.
    """
    try:
        config = json_of(files[CONFIG_FILE])
    except (KeyError, ValueError) as error:
        raise WeightsError(f"{CONFIG_FILE} is missing or not JSON: {error}", field=CONFIG_FILE) from error
    if not isinstance(config, dict):
        raise WeightsError(f"{CONFIG_FILE} is not a JSON object", field=CONFIG_FILE)
    return config


PICKLED_FILE = "pytorch_model.bin"


def as_safetensors(files: Mapping[str, bytes]) -> dict[str, bytes]:
    """
    Return a drafter's files with its weights as model.safetensors. No code in a pickle is executed.

    Raises:
        WeightsError: pytorch_model.bin is damaged, or holds other objects than tensors by name.
    """
    if WEIGHTS_FILE in files or PICKLED_FILE not in files:
        return dict(files)
    tensors = unpickled(PICKLED_FILE, files[PICKLED_FILE])
    return {name: content for name, content in files.items() if name != PICKLED_FILE} | {
        WEIGHTS_FILE: save(tensors, {"format": "pt"})
    }


def unpickled(name: str, content: bytes) -> dict[str, Tensor]:
    """
    Return the tensors of a pickle, each with its own memory, as safetensors requires.

    Raises:
        WeightsError: It is damaged, or holds other objects than tensors by name.
    """
    try:
        tensors = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError, ValueError) as error:
        raise WeightsError(f"{name} cannot be read: {error}", field=name) from error
    if not isinstance(tensors, dict) or not all(isinstance(tensor, Tensor) for tensor in tensors.values()):
        raise WeightsError(f"{name} is not a dictionary of tensors", field=name)
    return {str(key): tensor.contiguous().clone() for key, tensor in tensors.items()}
