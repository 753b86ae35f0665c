"""The policy's embedding and head, which the drafter shares and does not train."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from tlt_common.documents import json_of
from tlt_common.drafter.architecture import DrafterArchitecture
from tlt_common.drafter.format import DrafterFormat, Json
from tlt_common.drafter.reading import standard_format
from tlt_common.errors import ConfigError, WeightsError
from tlt_common.weights.files import weight_files
from tlt_trainer.drafter.rope import require_rope

EMBEDDING = "model.embed_tokens.weight"
HEAD = "lm_head.weight"


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedWeights:
    """Embedding and head, both (vocabulary, hidden size), without gradients. A single tensor if tied."""

    embedding: Tensor
    head: Tensor

    def to(self, dtype: torch.dtype) -> "SharedWeights":
        """Return the weights in this type. Tied ones stay a single tensor."""
        embedding = self.embedding.to(dtype)
        return SharedWeights(
            embedding=embedding, head=embedding if self.head is self.embedding else self.head.to(dtype)
        )


def read_format(directory: Path) -> DrafterFormat:
    """
    Read the format of EAGLE drafters for this policy.

    Raises:
        ConfigError: The directory has no checkpoint, or the checkpoint's architecture is not supported.
    """
    return trained_format(read_config(directory))


def layers_of(config: Json) -> int:
    """
    Return the number of layers of a policy with this config.json.

    Raises:
        ConfigError: The config.json does not state it.
    """
    layers = config.get("num_hidden_layers")
    if not isinstance(layers, int) or layers < 1:
        raise ConfigError(
            f"model: num_hidden_layers in config.json is {layers!r}; accepted: a number of at least 1", field="model"
        )
    return layers


def read_config(directory: Path) -> Json:
    """
    Read the config.json of a policy.

    Raises:
        ConfigError: The directory has none, or it is not a JSON object.
    """
    path = directory / "config.json"
    try:
        config: Json = json_of(path.read_bytes())
    except OSError as error:
        raise ConfigError(f"model is {directory}; accepted: a directory with config.json", field="model") from error
    except ValueError as error:
        raise ConfigError(f"{path} is not JSON: {error}", field="model") from error
    if not isinstance(config, dict):
        raise ConfigError(f"{path} is not a JSON object; accepted: that of a supported model", field="model")
    return config


def trained_format(
    config: Json,
    kind: DrafterArchitecture = DrafterArchitecture.EAGLE,
    *,
    draft_vocabulary: int | None = None,
    layers: Sequence[int] | None = None,
) -> DrafterFormat:
    """
    Return the format of drafters for a policy with this config.json, with the sizes of one policy layer.

    Args:
        config: The policy's config.json.
        kind: Kind of drafter.
        draft_vocabulary: Maximum draft tokens of an EAGLE-3 drafter; None for 32,000.
        layers: Layers of the policy that it reads; None for a low, a middle and a high one.

    Raises:
        ConfigError: A size is missing, or the policy's activation or rotary embedding is not supported.
        WeightsError: The policy lacks these layers, or has too few to choose from.
    """
    form = standard_format(kind, config, draft_vocabulary=draft_vocabulary, layers=layers)
    require_rope(form)
    activation = config.get("hidden_act", "silu")
    if activation != "silu":
        raise ConfigError(f"model: hidden_act in config.json is {activation!r}; accepted: 'silu'", field="model")
    return form


def read_shared(directory: Path, form: DrafterFormat, device: torch.device) -> SharedWeights:
    """
    Read only the embedding and head of a safetensors checkpoint.

    Raises:
        WeightsError: They are missing, unreadable or of another shape.
    """
    found = {name: read_rows(path, name).to(device) for name, path in find_shared(directory, form).items()}
    return shared_of(found)


def shared_of(found: Mapping[str, Tensor]) -> SharedWeights:
    """Return the weights from the tensors that `find_shared` located."""
    return SharedWeights(embedding=found[EMBEDDING], head=found.get(HEAD, found[EMBEDDING]))


def find_shared(directory: Path, form: DrafterFormat) -> dict[str, Path]:
    """
    Return the file of each shared tensor, by name: two tensors, or one if they are tied.

    Raises:
        WeightsError: A tensor is missing or of another shape, or a file is unreadable.
    """
    names = (EMBEDDING,) if form.is_target_tied else (EMBEDDING, HEAD)
    expected = [form.vocab_size, form.hidden_size]
    found: dict[str, Path] = {}
    try:
        files = weight_files(directory)
    except WeightsError as error:
        raise WeightsError(f"{names[0]} cannot be read: {error.message}", field="policy_uri") from error
    for path in files:
        with opened(path) as tensors:
            for name in set(names) & set(tensors.keys()):
                shape = list(tensors.get_slice(name).get_shape())
                if shape != expected:
                    raise WeightsError(f"{directory}: {name} is {shape}; accepted: {expected}", field="policy_uri")
                found[name] = path
    for name in names:
        if name not in found:
            raise WeightsError(f"{directory} has no tensor {name} in *.safetensors", field="policy_uri")
    return found


def read_rows(path: Path, name: str, rows: slice = slice(None)) -> Tensor:
    """
    Read rows of a tensor into memory in bfloat16, the type of drafting, which halves the memory.

    Raises:
        WeightsError: The file is unreadable.
    """
    with opened(path) as tensors:
        return cast("Tensor", tensors.get_slice(name)[rows]).to(torch.bfloat16)


@contextmanager
def opened(path: Path) -> Iterator[Any]:
    """
    Open a file of a checkpoint.

    Raises:
        WeightsError: The file is unreadable.
    """
    try:
        with safe_open(path, framework="pt") as tensors:
            yield tensors
    except (OSError, SafetensorError) as error:
        raise WeightsError(f"{path} is not readable as safetensors: {error}", field="policy_uri") from error
