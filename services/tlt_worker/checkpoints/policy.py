"""
Checkpoints of the policy, validated before they reach the engine.

Only headers are read to compare shapes, so that checking a large checkpoint takes milliseconds.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from pathlib import Path
from typing import Any

from tlt_common.domain.weights import plain_name
from tlt_common.errors import ConfigError, WeightsError, WeightsUnreadableError
from tlt_common.weights.checkpoint import entries_in
from tlt_common.weights.experts import (
    are_served_apart,
    is_apart,
    is_stacked,
    parts_of,
    require_one_spelling,
    require_stacks,
)
from tlt_common.weights.files import weight_files
from tlt_common.weights.safetensors_file import entries_of
from tlt_common.weights.tied_head import HEAD, is_tied
from tlt_worker.checkpoints.adapted import AdaptedCheckpoint
from tlt_worker.checkpoints.model_config import read_config
from tlt_worker.checkpoints.values import require_equal

_FLOATS = frozenset({"BF16", "F16", "F32"})
_DERIVED = ".rotary_emb.inv_freq"
"""Buffers that are computed from config.json, which old versions of transformers write and SGLang skips."""
_EMBEDDING = "embed_tokens.weight"
_QUANTIZED = ("_blocks", "_scales", ".weight_scale_inv", ".weight_scale", ".qweight", ".weight_packed")
"""Ends of names that quantized checkpoints have: MXFP4's, FP8's, GPTQ's and AWQ's, compressed-tensors'."""
_HEADS = ("model.mtp_layers.", "mtp.")
_LAYER = re.compile(r"model\.layers\.(\d+)\.")


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorHeader:
    """Header of a tensor in a safetensors file."""

    dtype: str
    shape: tuple[int, ...]


def read_headers(directory: Path) -> dict[str, TensorHeader]:
    """
    Return the headers of all tensors of a checkpoint, by tensor name.

    Raises:
        WeightsError: The directory has no weights, or they are damaged or ambiguous.
    """
    try:
        return {entry.name: TensorHeader(dtype=entry.dtype, shape=entry.shape) for entry in entries_in(directory)}
    except OSError as error:
        raise WeightsUnreadableError(f"{directory} cannot be read: {error}") from error


def read_headers_of(file: Path) -> dict[str, TensorHeader]:
    """
    Return the headers of all tensors in a safetensors file, by tensor name.

    Raises:
        WeightsError: The file is damaged.
    """
    try:
        return {entry.name: TensorHeader(dtype=entry.dtype, shape=entry.shape) for entry in entries_of(file)}
    except OSError as error:
        raise WeightsUnreadableError(f"{file} cannot be read: {error}") from error


def total_bytes(directory: Path) -> int:
    """Return the total size of a checkpoint's weights."""
    return sum(file.stat().st_size for file in weight_files(directory))


def loaded_bytes(headers: Mapping[str, TensorHeader], dtype: str) -> int:
    """Return the bytes of tensors once they are loaded as `dtype`."""
    return sum(prod(header.shape) for header in headers.values()) * (4 if dtype == "float32" else 2)


@dataclass(frozen=True, kw_only=True)
class ModelTensors:
    """
    The tensors of the running model, and the rules that an update must satisfy.

    Every tensor of the model's checkpoint is required, except a head that config.json ties to the embedding, buffers
    that are computed from config.json, and the head that predicts further tokens in published checkpoints: layers
    beyond the model's own (GLM, DeepSeek) or tensors by other names (MiMo, Qwen3-Next). Engines that draft with it load
    it once, at start: it is trained separately from the policy, and most trainers do not have it.

    Experts may be sent one by one or stacked, see `tlt_common.weights.experts`. Headers list them one by one if the
    engine does.
    """

    headers: Mapping[str, TensorHeader]
    config: Mapping[str, Any] = field(default_factory=dict)
    """The model's config.json."""
    is_tied: bool = False
    layers: int | None = None
    """
    Number of the model's layers; None if unknown. Later layers are its own drafter's (MTP) and not loaded.
    """
    splits_experts: bool = False
    """Whether stacked experts are split for an engine that loads them one by one."""

    @classmethod
    def of(cls, model: Path) -> "ModelTensors":
        """
        Read a model's checkpoint.

        Raises:
            WeightsError: As for `read_headers`.
            ConfigError: The checkpoint has no config.json.
        """
        config = read_config(model)
        splits, layers = are_served_apart(config), config.get("num_hidden_layers")
        headers = read_headers(model)
        if splits:
            require_one_spelling(headers)
            headers = _apart(headers)
        return cls(
            headers=headers,
            config=config,
            is_tied=is_tied(config),
            layers=layers if isinstance(layers, int) else None,
            splits_experts=splits,
        )

    @cached_property
    def required(self) -> frozenset[str]:
        """Names of the tensors that every update must have."""
        return frozenset(name for name in self.headers if not self.is_optional(name))

    @cached_property
    def embedding(self) -> str | None:
        """Name of the embedding; None if there is no single candidate."""
        found = [name for name in self.headers if name.endswith(_EMBEDDING)]
        return found[0] if len(found) == 1 else None

    def is_optional(self, name: str) -> bool:
        """Return whether an update may omit a tensor."""
        return name.endswith(_DERIVED) or (self.is_tied and name == HEAD) or self._is_beyond(name)

    def _is_beyond(self, name: str) -> bool:
        layer = _LAYER.match(name)
        if layer is None:
            return name.startswith(_HEADS)
        return self.layers is not None and int(layer[1]) >= self.layers

    def as_served(self, offered: Mapping[str, TensorHeader]) -> Mapping[str, TensorHeader]:
        """
        Return the headers of some of an update's tensors, with experts as the engine loads them.

        Raises:
            WeightsError: Experts are sent both ways, or a stack does not belong to this model.
        """
        if not self.splits_experts:
            return offered
        require_one_spelling(offered)
        require_stacks(
            ((name, header.shape) for name, header in offered.items()), self._shapes, whose="the running model"
        )
        return _apart(offered)

    def require_startable(self, model: Path) -> None:
        """
        Check that the model's checkpoint has a head: SGLang would serve one with random weights.

        Raises:
            ConfigError: It has no head although config.json does not tie it, or a different one although config.json
                does.
        """
        if not self.is_tied and self.embedding is not None and HEAD not in self.headers:
            raise ConfigError(
                f"model: {model} has no {HEAD}, and its config.json does not tie it to {self.embedding}; accepted: a "
                "checkpoint with the tensor, or a configuration that ties it",
                field="model",
            )
        try:
            self._check_head(model, self.headers)
        except WeightsError as error:
            raise ConfigError(f"model: {error.message}", field="model") from error

    def check(self, directory: Path) -> int:
        """
        Check that a checkpoint, or one with an adapter, can replace the running weights; return the size in bytes of
        what was published. Blocks on disk reads.

        Raises:
            WeightsError: A tensor is missing, unknown, of another shape or not a float; or a head is not the embedding
                that it is tied to. The message names it.
        """
        if (adapted := AdaptedCheckpoint.at(directory)) is not None:
            return adapted.changes(self.config)[0].size_bytes
        offered = self.as_served(read_headers(directory))
        self.require_complete(offered)
        self._check_head(directory, offered)
        return total_bytes(directory)

    def require_complete(self, offered: Mapping[str, TensorHeader]) -> None:
        """
        Check the names, shapes and types of an update's tensors.

        Raises:
            WeightsError: As for `check`.
        """
        if missing := sorted(self.required.difference(offered)):
            shape = list(self.headers[missing[0]].shape)
            raise WeightsError(
                f"tensor {missing[0]} is missing{_others(missing)}; the running model has it with shape {shape}"
                f"{self._instead(offered)}"
            )
        self.require_known(offered)

    def require_known(self, offered: Mapping[str, TensorHeader]) -> None:
        """
        Check that these tensors can replace those with the same names.

        Raises:
            WeightsError: A tensor is unknown, of another shape or not a float.
        """
        for name, found in offered.items():
            if (expected := self._expected(name)) is not None:
                _check_tensor(name, found, expected.shape)
            elif not self.is_optional(name):
                raise WeightsError(
                    f"tensor {name} of shape {list(found.shape)} is not in the model{self._instead(offered)}"
                )

    @cached_property
    def _shapes(self) -> Mapping[str, tuple[int, ...]]:
        return {name: header.shape for name, header in self.headers.items()}

    def _expected(self, name: str) -> TensorHeader | None:
        if name == HEAD and self.is_tied and name not in self.headers and self.embedding is not None:
            return self.headers[self.embedding]
        return self.headers.get(name)

    def _check_head(self, directory: Path, offered: Mapping[str, TensorHeader]) -> None:
        if not self.is_tied or HEAD not in offered:
            return
        if self.embedding is None or self.embedding not in offered:
            raise WeightsError(
                f"{HEAD} was sent without an embedding to compare it with; omit {HEAD}, which config.json ties"
            )
        entries = {entry.name: entry for entry in entries_in(directory)}
        require_equal(entries[HEAD], entries[self.embedding])

    def _instead(self, offered: Iterable[str]) -> str:
        """Return a description of the sent tensors that the model lacks, and of common causes of wrong names."""
        unknown = sorted(name for name in offered if self._expected(name) is None and not self.is_optional(name))
        if not unknown:
            return ""
        said = f"; sent instead: {unknown[0]}{_others(unknown)}"
        if any(name.endswith(_QUANTIZED) for name in unknown):
            return f"{said}. They are quantized: send the weights in bfloat16, float16 or float32"
        if any(".lora_" in name for name in unknown):
            return f"{said}. Merge the adapter into the weights before they are published"
        if any(self._expected(plain_name(name)) is not None for name in unknown):
            return f"{said}. The names have a wrapper's prefix: save the unwrapped model, or send its tensors"
        if any(map(is_apart, unknown)) and any(map(is_stacked, self.headers)):
            return f"{said}. Send the experts of this family stacked, as transformers' state_dict() has them"
        return said


def _apart(headers: Mapping[str, TensorHeader]) -> dict[str, TensorHeader]:
    """Return headers with stacked experts split."""
    found: dict[str, TensorHeader] = {}
    for name, header in headers.items():
        parts = parts_of(name, header.shape)
        found |= {part: TensorHeader(dtype=header.dtype, shape=shape) for part, shape in parts.items()} or {
            name: header
        }
    return found


def _others(names: list[str]) -> str:
    return f" and {len(names) - 1} others" if len(names) > 1 else ""


def _check_tensor(name: str, found: TensorHeader, shape: tuple[int, ...]) -> None:
    if found.shape != shape:
        raise WeightsError(f"tensor {name} has shape {list(found.shape)}; the running model has {list(shape)}")
    if found.dtype not in _FLOATS:
        raise WeightsError(f"tensor {name} has type {found.dtype}; accepted: {sorted(_FLOATS)}")
