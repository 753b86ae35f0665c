"""
Directories of safetensors, checked before the engine is touched.

Only headers are read to compare shapes, so that checking a large checkpoint takes milliseconds.
"""

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

from tlt_common.documents import json_of
from tlt_common.errors import WeightsError, WeightsUnreadableError

_FLOATS = frozenset({"BF16", "F16", "F32"})
_OPTIONAL_SUFFIXES = ("lm_head.weight", "rotary_emb.inv_freq")
"""Tied or derived tensors, which only some tools write."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorHeader:
    """Header of a tensor in a safetensors file."""

    dtype: str
    shape: tuple[int, ...]


def read_headers(directory: Path) -> dict[str, TensorHeader]:
    """
    Return the headers of all tensors in a directory's safetensors files, by tensor name.

    Raises:
        WeightsError: The directory has no such file, or one is damaged.
    """
    files = sorted(directory.glob("*.safetensors"))
    if not files:
        raise WeightsError(f"{directory} has no *.safetensors; accepted: a directory with the model's weights")
    headers: dict[str, TensorHeader] = {}
    for file in files:
        headers.update(read_headers_of(file))
    return headers


def read_headers_of(file: Path) -> dict[str, TensorHeader]:
    """
    Return the headers of all tensors in a safetensors file, by tensor name.

    Raises:
        WeightsError: It is damaged.
    """
    try:
        with file.open("rb") as opened:
            (size,) = struct.unpack("<Q", opened.read(8))
            actual = file.stat().st_size
            if size > actual - 8:
                raise WeightsError(f"{file} is truncated: its header alone has {size} bytes")
            entries = {name: entry for name, entry in json_of(opened.read(size)).items() if name != "__metadata__"}
        end = 8 + size + max((int(entry["data_offsets"][1]) for entry in entries.values()), default=0)
        found = {name: _tensor_header(entry) for name, entry in entries.items()}
    except OSError as error:
        raise WeightsUnreadableError(f"{file} cannot be read: {error}") from error
    except (ValueError, struct.error) as error:
        raise WeightsError(f"{file} is not a readable safetensors file: {error}") from error
    except (
        AttributeError,
        IndexError,
        KeyError,
        OverflowError,
        TypeError,
    ) as error:  # valid JSON, but no safetensors header
        raise WeightsError(f"{file} has no safetensors header: {error!r}") from error
    if actual != end:
        raise WeightsError(f"{file} has {actual} bytes; its header announces {end}")
    return found


def _tensor_header(entry: Mapping[str, Any]) -> TensorHeader:
    dtype, shape = entry["dtype"], tuple(entry["shape"])
    if not isinstance(dtype, str) or not all(type(extent) is int and extent >= 0 for extent in shape):
        raise TypeError(f"dtype {dtype!r} and shape {list(shape)}; accepted: a name and extents of 0 and above")
    return TensorHeader(dtype=dtype, shape=shape)


def compare(running: Mapping[str, TensorHeader], offered: Mapping[str, TensorHeader]) -> None:
    """
    Check that new weights can replace the running ones.

    Raises:
        WeightsError: A tensor is missing, unknown, of another shape or not a float; the message names it and both
            shapes.
    """
    for name, expected in running.items():
        if name not in offered and not name.endswith(_OPTIONAL_SUFFIXES):
            raise WeightsError(f"tensor {name} is missing; the running model has it with shape {list(expected.shape)}")
    require_known(running, offered)


def require_known(running: Mapping[str, TensorHeader], offered: Mapping[str, TensorHeader]) -> None:
    """
    Check that some tensors can replace those of the same names.

    Raises:
        WeightsError: A tensor is unknown, of another shape or not a float.
    """
    for name, found in offered.items():
        if (expected := running.get(name)) is not None:
            _check_tensor(name, found, expected.shape)
        elif not name.endswith(_OPTIONAL_SUFFIXES):
            raise WeightsError(f"tensor {name} of shape {list(found.shape)} is not in the model")


def _check_tensor(name: str, found: TensorHeader, shape: tuple[int, ...]) -> None:
    if found.shape != shape:
        raise WeightsError(f"tensor {name} has shape {list(found.shape)}; the running model has {list(shape)}")
    if found.dtype not in _FLOATS:
        raise WeightsError(f"tensor {name} has type {found.dtype}; accepted: {sorted(_FLOATS)}")


def total_bytes(directory: Path) -> int:
    """Return the total size of a directory's safetensors files."""
    return sum(file.stat().st_size for file in directory.glob("*.safetensors"))


def loaded_bytes(headers: Mapping[str, TensorHeader], dtype: str) -> int:
    """Return the memory of tensors that are loaded with elements of `dtype`."""
    return sum(prod(header.shape) for header in headers.values()) * (4 if dtype == "float32" else 2)
