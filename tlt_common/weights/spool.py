"""A safetensors file written from a stream of tensors."""

import os
import threading
from pathlib import Path

from tlt_common.disk import remove_beside
from tlt_common.domain.weights import MAX_WEIGHTS_BYTES, TensorChunk
from tlt_common.weights.digest import TensorDigest
from tlt_common.weights.layout import SpoolLayout
from tlt_common.weights.locked_directory import LockedDirectory
from tlt_common.weights.safetensors_file import Piece

FILE_NAME = "model.safetensors"


class Spool:
    """
    A new directory with one `model.safetensors`, complete after `finish`.

    Pieces of a tensor must arrive in order; tensors may be interleaved. Methods block on disk writes and raise OSError
    if the disk fails or is full: call them in a thread.
    """

    def __init__(self, parent: Path, *, max_bytes: int = MAX_WEIGHTS_BYTES) -> None:
        self._locked = LockedDirectory.create(parent)
        self._layout = SpoolLayout(max_bytes=max_bytes)
        self._file = (self.directory / FILE_NAME).open("xb", buffering=0)
        self._digest = TensorDigest()
        # A cancelled caller removes the spool while its thread may still be writing; the descriptor of a closed file
        # may be reused.
        self._writing = threading.Lock()

    @property
    def directory(self) -> Path:
        """The directory."""
        return self._locked.directory

    @property
    def locked(self) -> LockedDirectory:
        """The lock on the directory."""
        return self._locked

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
            position = self._layout.position(chunk)
            _write_all(self._file.fileno(), chunk.data, position)
            self._layout.place(chunk)
            self._digest.add(chunk)
        return Piece(
            file=self.file,
            position=position,
            length=len(chunk.data),
            name=chunk.name,
            dtype=chunk.dtype,
            shape=chunk.shape,
            offset_bytes=chunk.offset_bytes,
        )

    def finish(self) -> int:
        """
        Write the header and close the file; return the total bytes of all tensors.

        Raises:
            WeightsError: There is no tensor, one is incomplete, or there are too many for the header.
        """
        header = self._layout.header()
        with self._writing:
            _write_all(self._file.fileno(), header, 0)
            self._file.close()
        return self._layout.size_bytes

    def remove(self) -> None:
        """Delete the directory soon, or at once without an event loop. Repeating it does nothing."""
        remove_beside(self.directory.parent, self._remove)

    def _remove(self) -> None:
        with self._writing:  # it may hang in another thread
            self._file.close()
        self._locked.remove()


def _write_all(descriptor: int, data: bytes, position: int) -> None:
    view = memoryview(data)
    while view:
        written = os.pwrite(descriptor, view, position)
        view, position = view[written:], position + written
