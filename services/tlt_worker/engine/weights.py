"""
Checkpoints as directories of safetensors: looked at before the engine is touched.

Only headers are read to compare shapes, so that checking a large checkpoint takes milliseconds.
"""

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path

from tlt_common.errors import WeightsError

_FLOATS = frozenset({"BF16", "F16", "F32"})
_OPTIONAL_SUFFIXES = ("lm_head.weight", "rotary_emb.inv_freq")
"""Tied or derived: some tools write them, some do not."""


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
            entries = {name: entry for name, entry in json.loads(opened.read(size)).items() if name != "__metadata__"}
        end = 8 + size + max((int(entry["data_offsets"][1]) for entry in entries.values()), default=0)
        found = {name: TensorHeader(dtype=one["dtype"], shape=tuple(one["shape"])) for name, one in entries.items()}
    except (OSError, ValueError, struct.error) as error:
        raise WeightsError(f"{file} is not a readable safetensors file: {error}") from error
    except (AttributeError, IndexError, KeyError, TypeError) as error:  # JSON, but of something else
        raise WeightsError(f"{file} has no header of a safetensors file: {error!r}") from error
    if actual != end:
        raise WeightsError(f"{file} has {actual} bytes where its header announces {end}")
    return found


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
