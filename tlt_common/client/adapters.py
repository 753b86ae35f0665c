"""Adapters to publish: from a directory, from a PEFT model, or from a configuration and tensors."""

import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from os import PathLike, fspath
from pathlib import Path
from typing import Any, TypeAlias

from tlt_common.client.tensors import size_of, stream
from tlt_common.domain.weights import ADAPTER_CONFIG, TensorChunk, unwrapped_name
from tlt_common.errors import InvalidRequestError, WeightsError
from tlt_common.weights.adapter import MAX_CONFIG_BYTES, AdapterConfig, adapter_entries
from tlt_common.weights.checkpoint import pieces, pieces_in, pieces_of
from tlt_common.weights.digest import TENSORS, tensors_digest
from tlt_common.weights.safetensors_file import Piece

Adapter: TypeAlias = str | PathLike[str] | tuple[Any, Mapping[str, Any]] | Any
"""A directory that PEFT saved, a PEFT model, or an adapter's configuration and its tensors."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedAdapter:
    """An adapter, ready to be streamed any number of times."""

    config: bytes
    tensors: Mapping[str, Any] | tuple[Piece, ...]
    """Tensors by name, or where they are in files."""
    base: str
    """Digest of the whole weights that it was trained on."""

    @property
    def size_bytes(self) -> int:
        """Bytes of what is sent."""
        if isinstance(self.tensors, Mapping):
            return len(self.config) + size_of(self.tensors)
        return len(self.config) + sum(piece.length for piece in self.tensors)

    def chunks(self) -> Iterator[TensorChunk]:
        """Yield the configuration and the tensors in pieces."""
        yield from pieces(ADAPTER_CONFIG, "U8", (len(self.config),), memoryview(self.config))
        if isinstance(self.tensors, Mapping):
            yield from stream(self.tensors)
        else:
            yield from (part.read() for piece in self.tensors for part in pieces_of(piece))


def prepared(adapter: Adapter, base: str | PathLike[str] | None) -> PreparedAdapter:
    """
    Read an adapter and determine its base. Blocks on disk reads: the tensors of the base are read once per process.

    Raises:
        InvalidRequestError: The adapter or its base is of another form; the message names what is accepted.
        WeightsError: The adapter is of a kind that is not merged exactly, or a directory has none.
    """
    tensors: Mapping[str, Any] | tuple[Piece, ...]
    if isinstance(adapter, str | PathLike):
        config, tensors = _of_directory(Path(fspath(adapter)))
    elif isinstance(adapter, tuple) and len(adapter) == 2 and isinstance(adapter[1], Mapping):
        config, tensors = _config_of(adapter[0]), dict(adapter[1])
    elif hasattr(adapter, "peft_config"):
        settings, tensors = adapter_of(adapter)
        config = _config_of(settings)
    else:
        raise InvalidRequestError(
            f"adapter is a {type(adapter).__name__}; accepted: a directory that PEFT saved, a PEFT model, or a pair "
            "of its configuration and tensors",
            field="adapter",
        )
    parsed = AdapterConfig.parse(config)
    return PreparedAdapter(config=config, tensors=tensors, base=_base_of(base, parsed))


def require_whole(weights: object) -> None:
    """
    Check that weights to publish are not those of a model with an adapter.

    Raises:
        InvalidRequestError: They are; the message names the call that publishes adapters.
    """
    lora = ""
    if hasattr(weights, "peft_config"):
        lora = "weights is a PEFT model"
    elif isinstance(weights, Mapping):
        found = next((name for name in weights if isinstance(name, str) and ".lora_" in name), None)
        lora = f"weights has tensor {found}, of an adapter" if found else ""
    if lora:
        raise InvalidRequestError(
            f"{lora}; publish the adapter with publish_adapter, or merge it and publish whole weights",
            field="weights",
        )


def _of_directory(directory: Path) -> tuple[bytes, tuple[Piece, ...]]:
    try:
        found = {piece.name: piece for piece in adapter_entries(directory)}
        config = found.pop(ADAPTER_CONFIG).read().data
    except OSError as error:
        raise WeightsError(f"adapter {directory} cannot be read: {error}", field="adapter") from error
    return config, tuple(found.values())


def adapter_of(model: Any, state_dict: Mapping[str, Any] | None = None) -> tuple[Any, Mapping[str, Any]]:
    """
    Return the configuration and the tensors of the active adapter of a PEFT model.

    Args:
        model: The model.
        state_dict: All its tensors, with names that may have wrappers' prefixes; None reads them from the model.

    Raises:
        InvalidRequestError: Several adapters are active, or none.
    """
    names = getattr(model, "active_adapters", None) or list(model.peft_config)
    names = names() if callable(names) else names
    if len(names) != 1:
        raise InvalidRequestError(
            f"the model has the active adapters {list(names)}; accepted: one. Choose it with set_adapter",
            field="adapter",
        )
    peft = sys.modules["peft"]  # the model is one of its own
    state = None if state_dict is None else {unwrapped_name(name): tensor for name, tensor in state_dict.items()}
    tensors = peft.get_peft_model_state_dict(model, state_dict=state, adapter_name=names[0])
    return model.peft_config[names[0]], tensors


def _config_of(config: Any) -> bytes:
    found = config.to_dict() if hasattr(config, "to_dict") else config
    if not isinstance(found, Mapping):
        raise InvalidRequestError(
            f"the adapter's configuration is a {type(config).__name__}; accepted: a LoraConfig, or the content of "
            f"{ADAPTER_CONFIG}",
            field="adapter",
        )
    content = json.dumps(found, default=_plain).encode()
    if len(content) > MAX_CONFIG_BYTES:
        raise InvalidRequestError(
            f"the adapter's configuration has {len(content)} bytes; accepted: at most {MAX_CONFIG_BYTES}",
            field="adapter",
        )
    return content


def _plain(value: Any) -> Any:
    if isinstance(value, set | frozenset):
        return sorted(value)
    if hasattr(value, "to_dict"):
        return value.to_dict()
    return getattr(value, "value", str(value))


def _base_of(base: str | PathLike[str] | None, config: AdapterConfig) -> str:
    if isinstance(base, str) and base.startswith(f"{TENSORS}:"):
        return base
    said = "base" if base is not None else f"base_model_name_or_path of {ADAPTER_CONFIG}"
    named = fspath(base) if base is not None else config.base_name
    directory = _located(named) if named else None
    if directory is None:
        raise InvalidRequestError(
            f"{said} is {named!r}; accepted: the directory of the weights that the adapter was trained on, the name of "
            "a model in Hugging Face's cache, or the digest that publish_weights returned for streamed weights",
            field="base",
        )
    try:
        stats = {file.name: file.stat() for file in sorted(directory.glob("*.safetensors"))}
        stamp = tuple((name, found.st_size, found.st_mtime_ns) for name, found in stats.items())
        return _digest_of(directory, stamp)
    except OSError as error:
        raise InvalidRequestError(f"base {directory} cannot be read: {error}", field="base") from error


@lru_cache(maxsize=8)
def _digest_of(directory: Path, _stamp: tuple[Any, ...]) -> str:
    return tensors_digest(pieces_in(directory))


def _located(name: str) -> Path | None:
    if (directory := Path(name)).is_dir():
        return directory.resolve()
    try:
        from huggingface_hub import snapshot_download

        return Path(snapshot_download(name, local_files_only=True))
    except (ImportError, OSError, ValueError):  # no such package, not in the cache, or no name of a model
        return None
