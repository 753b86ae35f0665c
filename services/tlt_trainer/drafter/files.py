"""
A drafter as the files SGLang loads: model.safetensors, config.json, and our meta.json.

Only what is trained is written; embedding and head come from the policy. `fc.bias` is all zeros and there because
SGLang's layer has one and would leave it random if the file were silent about it.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from tlt_common.errors import WeightsError
from tlt_trainer.drafter.model import Drafter
from tlt_trainer.drafter.shape import DrafterShape, config_of

WEIGHTS_FILE = "model.safetensors"
CONFIG_FILE = "config.json"
META_FILE = "meta.json"
"""Written last: a directory that has it is complete."""

_BIAS = "fc.bias"

Weights = Mapping[str, Tensor]
"""The trained tensors by the names of SGLang's checkpoint."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DrafterMeta:
    """What a published drafter says of itself."""

    version: int
    """The version it gets if it is accepted: the one after `base`."""
    base: int
    """Version it was trained from; 0: from scratch."""
    worker_id: str
    steps: int
    tokens: int
    held_out_top1: float


def to_files(weights: Weights, shape: DrafterShape, meta: DrafterMeta) -> dict[str, bytes]:
    """Write a drafter in bfloat16, as engines serve it. The mark of completeness comes last."""
    tensors = {name: tensor.detach().to("cpu", torch.bfloat16).contiguous() for name, tensor in weights.items()}
    tensors[_BIAS] = torch.zeros(shape.hidden_size, dtype=torch.bfloat16)
    return {
        WEIGHTS_FILE: save(tensors, {"format": "pt"}),
        CONFIG_FILE: json.dumps(config_of(shape), indent=2).encode(),
        META_FILE: json.dumps(asdict(meta), indent=2).encode(),
    }


def from_files(files: Mapping[str, bytes], shape: DrafterShape) -> dict[str, Tensor]:
    """
    Read a drafter's trained tensors, in float32.

    Raises:
        WeightsError: They are missing, of another shape, or not finite; names the tensor.
    """
    try:
        tensors = load(files[WEIGHTS_FILE])
    except (KeyError, SafetensorError) as error:
        raise WeightsError(f"a drafter has no readable {WEIGHTS_FILE}: {error}") from error
    weights: dict[str, Tensor] = {}
    for name, expected in expected_shapes(shape).items():
        tensor = tensors.get(name)
        if tensor is None or tuple(tensor.shape) != expected:
            found = "missing" if tensor is None else tuple(tensor.shape)
            raise WeightsError(f"drafter tensor {name} is {found}; accepted: {expected}")
        if not bool(tensor.isfinite().all()):
            raise WeightsError(f"drafter tensor {name} is not finite")
        weights[name] = tensor.float()
    return weights


def expected_shapes(shape: DrafterShape) -> dict[str, tuple[int, ...]]:
    """Return the trained tensors' names and shapes."""
    with torch.device("meta"):
        return {name: tuple(parameter.shape) for name, parameter in Drafter(shape).named_parameters()}


def meta_of(files: Mapping[str, bytes]) -> DrafterMeta:
    """
    Read what a drafter says of itself.

    Raises:
        WeightsError: It says nothing that can be read.
    """
    try:
        return DrafterMeta(**json.loads(files[META_FILE]))
    except (KeyError, TypeError, ValueError) as error:
        raise WeightsError(f"a drafter has no readable {META_FILE}: {error}") from error
