"""
Checkpoints as streams of tensor pieces, read from safetensors files. Needs no torch: only headers and raw bytes.

Format: https://github.com/huggingface/safetensors#format
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tlt_common.documents import json_of
from tlt_common.domain.weights import TensorChunk
from tlt_common.errors import WeightsError

PIECE_BYTES = 4 * 2**20
"""Size of a streamed piece: message overhead is negligible, and pieces still interleave with chunks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """Where a piece of a tensor is in a safetensors file."""

    file: Path
    position: int
    """Byte offset in the file."""
    length: int
    name: str
    dtype: str
    shape: tuple[int, ...]
    offset_bytes: int
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


def pieces(name: str, dtype: str, shape: tuple[int, ...], data: memoryview) -> Iterator[TensorChunk]:
    """Split a tensor into pieces; an empty tensor is one piece without data."""
    for offset in range(0, max(1, len(data)), PIECE_BYTES):
        piece = bytes(data[offset : offset + PIECE_BYTES])
        yield TensorChunk(name=name, dtype=dtype, shape=shape, offset_bytes=offset, data=piece)


def pieces_in(directory: Path) -> tuple[Piece, ...]:
    """Return the pieces of all safetensors files of a directory, in order of file name and position."""
    return tuple(piece for file in sorted(directory.glob("*.safetensors")) for piece in _pieces_of(file))


def read(file: Path) -> Iterator[TensorChunk]:
    """Yield all tensors of a safetensors file, in pieces, in the order of the file. Blocks on disk reads."""
    for piece in _pieces_of(file):
        yield piece.read()


def _pieces_of(file: Path) -> Iterator[Piece]:
    """
    Raises:
        WeightsError: The file has no valid header, or is shorter than it states.
    """
    try:
        header_bytes, entries = _entries_of(file)
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
        raise WeightsError(f"{file} is not a safetensors file: {error!r}", field="source.uri") from error
    for name, entry in entries:
        start, end = entry["data_offsets"]
        for offset in range(0, max(1, end - start), PIECE_BYTES):
            yield Piece(
                file=file,
                position=8 + header_bytes + start + offset,
                length=min(PIECE_BYTES, end - start - offset),
                name=name,
                dtype=entry["dtype"],
                shape=tuple(entry["shape"]),
                offset_bytes=offset,
            )


def _entries_of(file: Path) -> tuple[int, list[tuple[str, dict[str, Any]]]]:
    """Return the bytes of the header, and the checked entries of all tensors in the order of their data."""
    with file.open("rb") as stream:
        header_bytes = int.from_bytes(stream.read(8), "little")
        data_bytes = file.stat().st_size - 8 - header_bytes
        if data_bytes < 0:
            raise ValueError(f"its header alone has {header_bytes} bytes")
        header = json_of(stream.read(header_bytes))
    header.pop("__metadata__", None)
    for name, entry in header.items():
        numbers = (*entry["data_offsets"], *entry["shape"])
        if not isinstance(entry["dtype"], str) or not all(type(number) is int and number >= 0 for number in numbers):
            raise ValueError(f"tensor {name!r} has dtype {entry['dtype']!r}, shape and offsets {numbers}")
        start, end = entry["data_offsets"]
        if not start <= end <= data_bytes:
            raise ValueError(f"tensor {name!r} is at {start} to {end}; the file has {data_bytes} bytes of data")
    return header_bytes, sorted(header.items(), key=lambda item: item[1]["data_offsets"][0])
