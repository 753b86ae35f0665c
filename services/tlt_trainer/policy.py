"""The policy's embedding and head, which the drafter shares and never changes."""

import json
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from tlt_common.errors import ConfigError, WeightsError
from tlt_trainer.drafter.shape import DrafterShape, shape_of

EMBEDDING = "model.embed_tokens.weight"
HEAD = "lm_head.weight"


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedWeights:
    """Embedding and head, both (vocabulary, hidden size), without gradients. Tied ones are the same tensor."""

    embedding: Tensor
    head: Tensor


def read_shape(directory: Path) -> DrafterShape:
    """
    Read what a draft layer for this policy looks like.

    Raises:
        ConfigError: No checkpoint is there, or not one a draft layer can be made for.
    """
    path = directory / "config.json"
    try:
        return shape_of(json.loads(path.read_bytes()))
    except OSError as error:
        raise ConfigError(f"model is {directory}; accepted: a directory with config.json", field="model") from error
    except ValueError as error:
        raise ConfigError(f"{path} is not JSON: {error}", field="model") from error


def read_shared(directory: Path, shape: DrafterShape, device: torch.device) -> SharedWeights:
    """
    Read embedding and head, and nothing else, of a checkpoint in safetensors.

    Raises:
        WeightsError: They are missing, unreadable or of another shape.
    """
    names = (EMBEDDING,) if shape.tied else (EMBEDDING, HEAD)
    found: dict[str, Tensor] = {}
    for path in sorted(directory.glob("*.safetensors")):
        try:
            with safe_open(path, framework="pt", device=str(device)) as tensors:
                held = set(tensors.keys())
                found |= {name: tensors.get_tensor(name) for name in names if name in held}
        except (OSError, SafetensorError) as error:
            raise WeightsError(f"{path} is not readable as safetensors: {error}") from error
    for name in names:
        if name not in found:
            raise WeightsError(f"{directory} has no {name} in its safetensors")
        if tuple(found[name].shape) != (shape.vocab_size, shape.hidden_size):
            expected = f"{shape.vocab_size} x {shape.hidden_size}"
            raise WeightsError(f"{directory}: {name} is {tuple(found[name].shape)}; accepted: {expected}")
    # The element type drafting runs in; also halves what a large vocabulary costs.
    cast = {name: tensor.to(torch.bfloat16) for name, tensor in found.items()}
    return SharedWeights(embedding=cast[EMBEDDING], head=cast[EMBEDDING if shape.tied else HEAD])
