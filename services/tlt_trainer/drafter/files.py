"""
A drafter as the files SGLang loads: model.safetensors, config.json, and our meta.json.

Only trained tensors are written; embedding and head come from the policy. `fc.bias` is all zeros: SGLang's layer has
one, and would leave it uninitialised if it were missing from the file.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from tlt_common.drafter.format import DrafterFormat
from tlt_common.drafter.meta import CONFIG_FILE, META_FILE, WEIGHTS_FILE, DrafterMeta
from tlt_common.drafter.tensors import BIAS
from tlt_common.errors import WeightsError

Weights = Mapping[str, Tensor]
"""Trained tensors by their names in SGLang's checkpoint."""


def to_files(weights: Weights, form: DrafterFormat, meta: DrafterMeta) -> dict[str, bytes]:
    """
    Return the files of a drafter in bfloat16, as engines serve it. The file that marks completeness comes last.

    Raises:
        WeightsError: A tensor, which the message names, is not finite.
    """
    tensors = {name: tensor.detach().to("cpu", torch.bfloat16).contiguous() for name, tensor in weights.items()}
    for name, tensor in tensors.items():
        if not bool(tensor.isfinite().all()):
            raise WeightsError(f"drafter tensor {name} is not finite")
    tensors[BIAS] = torch.zeros(form.hidden_size, dtype=torch.bfloat16)
    return {
        WEIGHTS_FILE: save(tensors, {"format": "pt"}),
        CONFIG_FILE: json.dumps(form.config({"torch_dtype": "bfloat16"}), indent=2).encode(),
        META_FILE: json.dumps(asdict(meta), indent=2).encode(),
    }


def from_files(files: Mapping[str, bytes], form: DrafterFormat) -> dict[str, Tensor]:
    """
    Read a drafter's trained tensors, in float32.

    Raises:
        WeightsError: A tensor, which the message names, is missing, of another shape, or not finite.
    """
    try:
        tensors = load(files[WEIGHTS_FILE])
    except (KeyError, SafetensorError) as error:
        raise WeightsError(f"the drafter's {WEIGHTS_FILE} is missing or unreadable: {error}") from error
    weights: dict[str, Tensor] = {}
    for name, expected in form.tensor_shapes().items():
        tensor = tensors.get(name)
        if tensor is None or tuple(tensor.shape) != expected:
            found = "missing" if tensor is None else tuple(tensor.shape)
            raise WeightsError(f"drafter tensor {name} is {found}; accepted: {expected}")
        if not bool(tensor.isfinite().all()):
            raise WeightsError(f"drafter tensor {name} is not finite")
        weights[name] = tensor.float()
    return weights
