"""A safetensors file written from a stream of tensors."""

import json
import math
import os
import threading
from dataclasses import dataclass
from pathlib import Path

from tlt_common.checkpoint import Piece
from tlt_common.domain.hidden import ELEMENT_BYTES
from tlt_common.domain.weights import MAX_WEIGHTS_BYTES, TensorChunk
from tlt_common.errors import WeightsError
from tlt_common.spool_lease import SpoolLease
from tlt_common.weights_digest import TensorDigest

HEADER_BYTES = 4 * 2**20
"""Space reserved for the header, which is written last and padded with spaces. Enough for about 30,000 tensors."""
FILE_NAME = "model.safetensors"


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

    Pieces of a tensor must arrive in order; tensors may be interleaved. Methods block on disk writes and raise OSError
    if the disk fails or is full: call them in a thread.
    """

    def __init__(self, parent: Path, *, max_bytes: int = MAX_WEIGHTS_BYTES) -> None:
        self._lease = SpoolLease.create(parent)
        self._max_bytes = max_bytes
        self._file = (self.directory / FILE_NAME).open("xb", buffering=0)
        self._entries: dict[str, _Entry] = {}
        self._end = 0
        self._digest = TensorDigest()
        # A cancelled caller removes the spool while its thread may still be writing; the descriptor of a closed file
        # may be reused.
        self._writing = threading.Lock()

    @property
    def directory(self) -> Path:
        """The directory."""
        return self._lease.directory

    @property
    def lease(self) -> SpoolLease:
        """The lock on the directory."""
        return self._lease

    @property
    def file(self) -> Path:
        """The safetensors file."""
        return self.directory / FILE_NAME

    @property
    def digest(self) -> str:
        """Digest of the tensors written."""
        return self._digest.value

    def write(self, chunk: TensorChunk) -> Piece:
        """
        Append a piece; return where it was written.

        Raises:
            WeightsError: It does not continue its tensor, contradicts earlier pieces, or exceeds the maximum size.
        """
        with self._writing:
            if self._file.closed:
                raise OSError(f"{self.directory} was removed")
            piece = self._append(chunk, self._entry(chunk))
            self._digest.add(chunk)
        return piece

    def finish(self) -> int:
        """
        Write the header and close the file; return the total bytes of all tensors.

        Raises:
            WeightsError: There is no tensor, one is incomplete, or there are too many for the header.
        """
        if not self._entries:
            raise WeightsError("the stream contains no tensor", field="tensor")
        for name, entry in self._entries.items():
            if missing := entry.end - entry.start - entry.written:
                raise WeightsError(
                    f"tensor {name!r} is incomplete: its last {missing} bytes are missing", field="tensor.data"
                )
        header = json.dumps(
            {
                name: {"dtype": entry.dtype, "shape": entry.shape, "data_offsets": [entry.start, entry.end]}
                for name, entry in self._entries.items()
            },
            separators=(",", ":"),
        ).encode()
        if len(header) > HEADER_BYTES:
            raise WeightsError(
                f"the header of {len(self._entries)} tensors exceeds {HEADER_BYTES} bytes; publish a directory instead"
            )
        with self._writing:
            _write_all(self._file.fileno(), HEADER_BYTES.to_bytes(8, "little") + header.ljust(HEADER_BYTES), 0)
            self._file.close()
        return self._end

    def remove(self) -> None:
        """Delete the directory. Repeating it does nothing."""
        with self._writing:
            self._file.close()
        self._lease.remove()

    def _append(self, chunk: TensorChunk, entry: _Entry) -> Piece:
        if (chunk.dtype, chunk.shape) != (entry.dtype, entry.shape):
            raise _refused(chunk, f"is {chunk.dtype}{list(chunk.shape)}, was {entry.dtype}{list(entry.shape)}")
        if chunk.offset_bytes != entry.written:
            raise _refused(chunk, f"continues at byte {chunk.offset_bytes}; accepted: {entry.written}")
        if entry.written + len(chunk.data) > entry.end - entry.start:
            raise _refused(chunk, f"has more than the {entry.end - entry.start} bytes of its shape")
        position = 8 + HEADER_BYTES + entry.start + entry.written
        _write_all(self._file.fileno(), chunk.data, position)
        entry.written += len(chunk.data)
        return Piece(
            file=self.file,
            position=position,
            length=len(chunk.data),
            name=chunk.name,
            dtype=chunk.dtype,
            shape=chunk.shape,
            offset_bytes=chunk.offset_bytes,
        )

    def _entry(self, chunk: TensorChunk) -> _Entry:
        if (known := self._entries.get(chunk.name)) is not None:
            return known
        if not chunk.name or chunk.name == "__metadata__":
            raise _refused(chunk, "is not a valid tensor name")
        if chunk.dtype not in ELEMENT_BYTES:
            raise _refused(chunk, f"has dtype {chunk.dtype!r}; accepted: {sorted(ELEMENT_BYTES)}")
        if any(extent < 0 for extent in chunk.shape):
            raise _refused(chunk, f"has shape {list(chunk.shape)}; accepted: extents of 0 and above")
        size = math.prod(chunk.shape) * ELEMENT_BYTES[chunk.dtype]
        if self._end + size > self._max_bytes:
            raise _refused(chunk, f"brings the weights to {self._end + size} bytes; accepted: {self._max_bytes}")
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
