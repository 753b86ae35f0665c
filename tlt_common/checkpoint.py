"""
Checkpoints as streams of tensor pieces and as safetensors files. No torch: only headers and raw bytes.

Format: https://github.com/huggingface/safetensors#format
"""

import json
import math
import os
import shutil
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tlt_common.domain.hidden import ELEMENT_BYTES
from tlt_common.domain.weights import TensorChunk
from tlt_common.errors import WeightsError

PIECE_BYTES = 4 * 2**20
"""Size of a streamed piece: large enough that a message costs nothing per byte, small enough to mix with chunks."""
HEADER_BYTES = 4 * 2**20
"""Kept for the header before any tensor is known; the format lets it end in blanks. About 30,000 tensors."""
FILE_NAME = "model.safetensors"


def pieces(name: str, dtype: str, shape: tuple[int, ...], data: memoryview) -> Iterator[TensorChunk]:
    """Cut one tensor into pieces; one without elements is one piece without bytes."""
    for offset in range(0, max(1, len(data)), PIECE_BYTES):
        piece = bytes(data[offset : offset + PIECE_BYTES])
        yield TensorChunk(name=name, dtype=dtype, shape=shape, offset_bytes=offset, data=piece)


def read(file: Path) -> Iterator[TensorChunk]:
    """All tensors of a safetensors file, in pieces, in the order they are stored. Blocks on the disk."""
    with file.open("rb") as stream:
        header_bytes = int.from_bytes(stream.read(8), "little")
        header = json.loads(stream.read(header_bytes))
        header.pop("__metadata__", None)
        for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"][0]):
            start, end = entry["data_offsets"]
            for offset in range(0, max(1, end - start), PIECE_BYTES):
                stream.seek(8 + header_bytes + start + offset)
                data = stream.read(min(PIECE_BYTES, end - start - offset))
                yield TensorChunk(
                    name=name, dtype=entry["dtype"], shape=tuple(entry["shape"]), offset_bytes=offset, data=data
                )


@dataclass(slots=True, kw_only=True)
class _Entry:
    dtype: str
    shape: tuple[int, ...]
    start: int
    end: int
    written: int = 0


class Spool:
    """
    A new directory with one `model.safetensors`, complete after `finish`.

    Pieces of one tensor come in order; tensors may be interleaved. Methods block on the disk: call them in a thread.
    """

    def __init__(self, parent: Path) -> None:
        parent.mkdir(parents=True, exist_ok=True)
        self.directory = Path(tempfile.mkdtemp(prefix="weights-", dir=parent))
        self._file = (self.directory / FILE_NAME).open("xb", buffering=0)
        self._entries: dict[str, _Entry] = {}
        self._end = 0
        # A caller that is cancelled removes the spool while its thread still writes; the number of a closed file may
        # belong to another one by then.
        self._writing = threading.Lock()

    @property
    def file(self) -> Path:
        """The safetensors file."""
        return self.directory / FILE_NAME

    def write(self, chunk: TensorChunk) -> None:
        """
        Add a piece.

        Raises:
            WeightsError: It does not continue its tensor, or contradicts the pieces before it.
        """
        with self._writing:
            self._append(chunk, self._entry(chunk))

    def finish(self) -> int:
        """
        Write the header and close the file; return the bytes of all tensors.

        Raises:
            WeightsError: No tensor came, one is incomplete, or there are too many for the header.
        """
        if not self._entries:
            raise WeightsError("the stream carried no tensor", field="tensor")
        for name, entry in self._entries.items():
            if missing := entry.end - entry.start - entry.written:
                raise WeightsError(f"tensor {name!r} lacks its last {missing} bytes", field="tensor.data")
        header = json.dumps(
            {
                name: {"dtype": entry.dtype, "shape": entry.shape, "data_offsets": [entry.start, entry.end]}
                for name, entry in self._entries.items()
            },
            separators=(",", ":"),
        ).encode()
        if len(header) > HEADER_BYTES:
            raise WeightsError(f"{len(self._entries)} tensors are too many for one stream; publish a directory")
        with self._writing:
            _write_all(self._file.fileno(), HEADER_BYTES.to_bytes(8, "little") + header.ljust(HEADER_BYTES), 0)
            self._file.close()
        return self._end

    def remove(self) -> None:
        """Delete the directory. Repeating it does nothing."""
        with self._writing:
            self._file.close()
        shutil.rmtree(self.directory, ignore_errors=True)

    def _append(self, chunk: TensorChunk, entry: _Entry) -> None:
        if (chunk.dtype, chunk.shape) != (entry.dtype, entry.shape):
            raise _refused(chunk, f"is {chunk.dtype}{list(chunk.shape)}, was {entry.dtype}{list(entry.shape)}")
        if chunk.offset_bytes != entry.written:
            raise _refused(chunk, f"continues at byte {chunk.offset_bytes}; accepted: {entry.written}")
        if entry.written + len(chunk.data) > entry.end - entry.start:
            raise _refused(chunk, f"has more than the {entry.end - entry.start} bytes of its shape")
        _write_all(self._file.fileno(), chunk.data, 8 + HEADER_BYTES + entry.start + entry.written)
        entry.written += len(chunk.data)

    def _entry(self, chunk: TensorChunk) -> _Entry:
        if (known := self._entries.get(chunk.name)) is not None:
            return known
        if not chunk.name or chunk.name == "__metadata__":
            raise _refused(chunk, "is no name a tensor may have")
        if chunk.dtype not in ELEMENT_BYTES:
            raise _refused(chunk, f"has dtype {chunk.dtype!r}; accepted: {sorted(ELEMENT_BYTES)}")
        if any(extent < 0 for extent in chunk.shape):
            raise _refused(chunk, f"has shape {list(chunk.shape)}")
        size = math.prod(chunk.shape) * ELEMENT_BYTES[chunk.dtype]
        entry = _Entry(dtype=chunk.dtype, shape=chunk.shape, start=self._end, end=self._end + size)
        self._end += size
        self._entries[chunk.name] = entry
        return entry


def _refused(chunk: TensorChunk, what: str) -> WeightsError:
    return WeightsError(f"tensor {chunk.name!r} {what}", field="tensor")


def _write_all(descriptor: int, data: bytes, position: int) -> None:
    view = memoryview(data)
    while view:
        written = os.pwrite(descriptor, view, position)
        view, position = view[written:], position + written
