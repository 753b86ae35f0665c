"""
Tensors of checkpoints in safetensors files: streams of pieces, of which only headers and raw bytes are read, or single
whole tensors.

Only `read_tensors` imports torch and safetensors.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from tlt_common.domain.weights import TensorChunk
from tlt_common.errors import WeightsError, WeightsUnreadableError
from tlt_common.weights.files import weight_files
from tlt_common.weights.safetensors_file import Piece, entries_of

PIECE_BYTES = 4 * 2**20
"""Size of a streamed piece: message overhead is negligible, and pieces still interleave with chunks."""


def pieces(name: str, dtype: str, shape: tuple[int, ...], data: memoryview) -> Iterator[TensorChunk]:
    """Split a tensor into pieces; an empty tensor is one piece without data."""
    for offset in range(0, max(1, len(data)), PIECE_BYTES):
        piece = bytes(data[offset : offset + PIECE_BYTES])
        yield TensorChunk(name=name, dtype=dtype, shape=shape, offset_bytes=offset, data=piece)


def entries_in(directory: Path) -> tuple[Piece, ...]:
    """
    Return the whole tensors of a checkpoint, in order of file name and position. Reads headers only.

    Raises:
        OSError: A file cannot be read.
        WeightsError: A file is damaged, a tensor is in two files, or see `weight_files`.
    """
    found: dict[str, Piece] = {}
    for file in weight_files(directory):
        for entry in entries_of(file):
            if (other := found.get(entry.name)) is not None:
                raise WeightsError(
                    f"tensor {entry.name} is in {other.file.name} and in {file.name} of {directory}; keep one",
                    field="source.uri",
                )
            found[entry.name] = entry
    return tuple(found.values())


def read_tensors(directory: Path, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Any]:
    """
    Read some tensors of a checkpoint as torch tensors, after checking that all exist with these shapes.

    Raises:
        WeightsError: A tensor, which the message names, is missing or of another shape; also as for `entries_in`.
        WeightsUnreadableError: A file cannot be read.
    """
    from safetensors import SafetensorError, safe_open

    found: dict[str, Any] = {}
    try:
        entries = {entry.name: entry for entry in entries_in(directory)}
        for name, shape in shapes.items():
            if name not in entries or entries[name].shape != shape:
                was = f"of shape {list(entries[name].shape)}" if name in entries else "missing"
                raise WeightsError(f"tensor {name} of {directory} is {was}; accepted: one of shape {list(shape)}")
        for file in {entries[name].file for name in shapes}:
            with safe_open(file, framework="pt") as tensors:
                found |= {name: tensors.get_tensor(name) for name in shapes if entries[name].file == file}
    except (OSError, SafetensorError) as error:
        raise WeightsUnreadableError(f"{directory} cannot be read: {error}") from error
    return found


def pieces_in(directory: Path) -> tuple[Piece, ...]:
    """
    Return the pieces of a checkpoint, in order of file name and position.

    Raises:
        OSError: As for `entries_in`; also WeightsError.
    """
    return tuple(piece for entry in entries_in(directory) for piece in pieces_of(entry))


def read(file: Path) -> Iterator[TensorChunk]:
    """Yield all tensors of a safetensors file, in pieces, in the order of the file. Blocks on disk reads."""
    for entry in entries_of(file):
        for piece in pieces_of(entry):
            yield piece.read()


def pieces_of(entry: Piece) -> Iterator[Piece]:
    """Cut a whole tensor; an empty one is one piece without data."""
    for offset in range(0, max(1, entry.length), PIECE_BYTES):
        length = min(PIECE_BYTES, entry.length - offset)
        yield replace(entry, position=entry.position + offset, length=length, offset_bytes=offset)
