"""
Headers of safetensors files from untrusted sources. Never allocates more than the file holds.

The rules are those of the format's own library (https://github.com/huggingface/safetensors#format): at most 100 MB of
header, names once, data without gaps or overlap, and nothing after it.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from tlt_common.domain.weights import TensorChunk
from tlt_common.errors import WeightsError

MAX_HEADER_BYTES = 100_000_000
"""The format's limit."""
MAX_DIMENSIONS = 16
DTYPE_BYTES: Mapping[str, int] = {
    **dict.fromkeys(("BOOL", "U8", "I8", "F8_E4M3", "F8_E5M2", "F8_E8M0"), 1),
    **dict.fromkeys(("U16", "I16", "F16", "BF16"), 2),
    **dict.fromkeys(("U32", "I32", "F32"), 4),
    **dict.fromkeys(("U64", "I64", "F64", "C64"), 8),
}
"""Bytes per element, by the format's name of the type."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """Location of a tensor, or of a part of it, in a safetensors file."""

    file: Path
    position: int
    """Byte offset in the file."""
    length: int
    name: str
    dtype: str
    shape: tuple[int, ...]
    """Shape of the whole tensor."""
    offset_bytes: int = 0
    """Byte offset in the tensor."""

    def read(self) -> TensorChunk:
        """
        Read the piece. Blocks on disk reads.

        Raises:
            OSError: The file is unreadable, or shorter than its header states.
        """
        with self.file.open("rb", buffering=0) as stream:
            stream.seek(self.position)
            data = stream.read(self.length) or b""
            while len(data) < self.length:
                more = stream.read(self.length - len(data))
                if not more:
                    raise OSError(f"{self.file} ends at byte {self.position + len(data)} within tensor {self.name!r}")
                data += more
        return TensorChunk(
            name=self.name, dtype=self.dtype, shape=self.shape, offset_bytes=self.offset_bytes, data=data
        )


def entries_of(file: Path) -> tuple[Piece, ...]:
    """
    Return the whole tensors of a file in the order of their data. Reads the header only.

    Raises:
        OSError: The file cannot be read.
        WeightsError: It is not a complete safetensors file.
    """
    with file.open("rb") as stream:
        size = os.fstat(stream.fileno()).st_size
        # Before the stream has read anything: it would not notice that its position changes.
        hole = os.lseek(stream.fileno(), 0, os.SEEK_HOLE) if size else 0
        os.lseek(stream.fileno(), 0, os.SEEK_SET)
        try:
            header_bytes = _header_bytes(stream, size, hole)
            header = _parsed(stream.read(header_bytes))
            return tuple(_entries(file, header, begin=8 + header_bytes, size=size))
        except (ValueError, RecursionError) as error:
            why = "nested too deeply" if isinstance(error, RecursionError) else str(error)
            raise WeightsError(f"{file} is not a safetensors file: {why:.300}", field="source.uri") from error


def _header_bytes(stream: BinaryIO, size: int, hole: int) -> int:
    header_bytes = int.from_bytes(stream.read(8), "little")
    if size < 8 or header_bytes > size - 8:
        raise ValueError(f"it is truncated: it has {size} bytes, its header alone {header_bytes}")
    if header_bytes > MAX_HEADER_BYTES:
        raise ValueError(f"its header has {header_bytes} bytes; the maximum is {MAX_HEADER_BYTES}")
    # A hole takes no disk, but memory when it is read. File systems without holes report the end of the file.
    if hole < 8 + header_bytes:
        raise ValueError("its header has a hole")
    return header_bytes


def _parsed(header: bytes) -> dict[str, Any]:
    found = json.loads(header, object_pairs_hook=_unique)
    if not isinstance(found, dict):
        raise ValueError("its header is not an object")  # noqa: TRY004 - of the file, not of our caller
    found.pop("__metadata__", None)
    return found


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"{next(name for name in names if names.count(name) > 1)!r} is repeated")
    return found


def _entries(file: Path, header: Mapping[str, Any], *, begin: int, size: int) -> list[Piece]:
    found = [_entry(file, name, value, begin, size) for name, value in header.items()]
    found.sort(key=lambda entry: (entry.position, entry.length))  # empty tensors first
    position = begin
    for entry in found:
        if entry.position != position:
            raise ValueError(
                f"tensor {entry.name!r} begins at byte {entry.position}; the one before it ends at {position}"
            )
        position += entry.length
    if position != size:
        raise ValueError(f"it has {size} bytes; its header announces {position}")
    return found


def _entry(file: Path, name: str, value: Any, begin: int, size: int) -> Piece:
    if not isinstance(value, dict) or value.keys() != {"dtype", "shape", "data_offsets"}:
        raise ValueError(f"tensor {name!r} must have exactly dtype, shape and data_offsets")
    dtype, shape, offsets = value["dtype"], value["shape"], value["data_offsets"]
    if not isinstance(dtype, str) or dtype not in DTYPE_BYTES:
        raise ValueError(f"tensor {name!r} has dtype {dtype!r}; accepted: {', '.join(DTYPE_BYTES)}")
    if not (_are_counts(shape) and _are_counts(offsets) and len(shape) <= MAX_DIMENSIONS and len(offsets) == 2):
        raise ValueError(f"tensor {name!r} has a shape or offsets that are not lists of sizes")
    start, end = begin + offsets[0], begin + offsets[1]
    if not start <= end <= size:
        raise ValueError(f"tensor {name!r} is truncated: it is at {start} to {end} of {size} bytes")
    if (needed := _bytes(dtype, shape, limit=size)) != end - start:
        raise ValueError(f"tensor {name!r} of type {dtype} and shape {shape} has {end - start} bytes, needs {needed}")
    return Piece(file=file, position=start, length=end - start, name=name, dtype=dtype, shape=tuple(shape))


def _are_counts(found: object) -> bool:
    return isinstance(found, list) and all(type(extent) is int and 0 <= extent < 2**63 for extent in found)


def _bytes(dtype: str, shape: list[int], *, limit: int) -> int:
    """Return the bytes of a tensor, or any number above `limit` if it is larger."""
    if 0 in shape:
        return 0
    total = DTYPE_BYTES[dtype]
    for extent in shape:
        total = min(total * extent, limit + 1)
    return total
