"""A release in a safetensors file of ours, which is written piece by piece."""

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from pathlib import Path

from tlt_common.disk import on_disk, remove_beside
from tlt_common.domain.weights import MAX_WEIGHTS_BYTES, TensorChunk
from tlt_common.errors import WeightsUnreadableError
from tlt_common.weights.digest import TensorDigest
from tlt_common.weights.layout import FILE_NAME, SpoolLayout
from tlt_common.weights.locked_directory import LockedDirectory
from tlt_common.weights.message_buffers import keep_message_buffers
from tlt_common.weights.piece_log import PieceLog
from tlt_common.weights.safetensors_file import Piece

IDLE_S = 60.0
"""Seconds without a tensor after which a stream is given up."""
COPIES = 2
"""Copies on a volume during an update: the served weights and the arriving ones."""


def fitting(max_bytes: int, *, volume_bytes: int | None) -> int:
    """Return the maximum size of weights on a volume of this size; None sets no limit."""
    return max_bytes if volume_bytes is None else min(max_bytes, volume_bytes // COPIES)


class Spool:
    """
    A new directory with one `model.safetensors`, which is a release once it is complete.

    Pieces of a tensor must arrive in order; tensors may be interleaved. What has arrived can be followed through `log`
    meanwhile.

    `write`, `complete` and `remove` block on the disk and raise OSError if it fails or is full: call them in a thread.
    The others raise WeightsUnreadableError instead.

    Args:
        parent: Parent of the directory.
        max_bytes: Maximum size of all tensors.
        check: Looks at each piece in a thread, and raises WeightsError if it is none that is accepted.

    Attributes:
        locked: The directory and the lock on it.
        file: The safetensors file.
        log: The pieces that have arrived.
    """

    def __init__(
        self,
        parent: Path,
        *,
        max_bytes: int = MAX_WEIGHTS_BYTES,
        check: Callable[[TensorChunk], None] | None = None,
    ) -> None:
        self.locked = LockedDirectory.create(parent)
        self.file = self.directory / FILE_NAME
        self.log = PieceLog()
        self._check = check
        self._layout = SpoolLayout(max_bytes=max_bytes)
        self._digest = TensorDigest()
        self._output = self.file.open("xb", buffering=0)
        # A cancelled caller removes the spool while its thread may still be writing; the descriptor of a closed file
        # may be reused.
        self._writing = threading.Lock()

    @classmethod
    async def begin(
        cls, parent: Path, *, max_bytes: int, check: Callable[[TensorChunk], None] | None = None
    ) -> "Spool":
        """
        Create a spool. A cancelled call leaves none behind.

        Raises:
            WeightsUnreadableError: The disk is full or fails.
        """
        keep_message_buffers()
        creating = asyncio.ensure_future(on_disk(cls, parent, max_bytes=max_bytes, check=check))
        try:
            return await asyncio.shield(creating)
        except asyncio.CancelledError:
            creating.add_done_callback(_abandoned)
            raise
        except OSError as error:
            raise WeightsUnreadableError(f"cannot store weights in {parent}: {error.strerror or error}") from error

    @property
    def directory(self) -> Path:
        """The directory."""
        return self.locked.directory

    @property
    def digest(self) -> str:
        """Digest of the tensors that have arrived."""
        return self._digest.value

    async def receive(self, tensors: AsyncIterator[TensorChunk], *, skip: int = 0, idle_s: float = IDLE_S) -> None:
        """
        Write tensors until the stream ends, omitting the first `skip` pieces. Does not finish the spool.

        Raises:
            WeightsError: As for `write`.
            TimeoutError: No tensor arrived for `idle_s` seconds.
        """
        writing: asyncio.Future[Piece] | None = None
        try:
            while (chunk := await _next(tensors, idle_s)) is not None:
                if skip > 0:
                    skip -= 1
                    continue
                if writing is not None:
                    previous, writing = writing, None
                    await self._on_disk(previous)
                # Written in a thread while the next piece is received; followers get it as soon as it is written.
                writing = asyncio.ensure_future(on_disk(self.write, chunk))
                writing.add_done_callback(partial(self._note, chunk))
        finally:
            if writing is not None:
                await self._on_disk(writing)

    async def finish(self) -> None:
        """
        Complete the file, and end the log.

        Raises:
            WeightsError: As for `complete`.
        """
        await self._on_disk(on_disk(self.complete))
        self.log.finish()

    def discard(self, why: str) -> None:
        """Delete the spool and end all followers."""
        self.log.fail(why)
        self.remove()

    def write(self, chunk: TensorChunk) -> Piece:
        """
        Append a piece; return where it was written.

        Raises:
            WeightsError: It does not continue its tensor, contradicts earlier pieces, exceeds the maximum size, or as
                for `check`.
        """
        if self._check is not None:
            self._check(chunk)
        with self._writing:
            if self._output.closed:
                raise OSError(f"{self.directory} was removed")
            piece = self._located(chunk)
            _write_all(self._output.fileno(), chunk.data, piece.position)
            self._layout.place(chunk)
            self._digest.add(chunk)
        return piece

    def complete(self) -> int:
        """
        Write the header and close the file; return the total bytes of all tensors.

        Raises:
            WeightsError: There is no tensor, one is incomplete, or there are too many for the header.
        """
        header = self._layout.header()
        with self._writing:
            _write_all(self._output.fileno(), header, 0)
            self._output.close()
        return self._layout.size_bytes

    def remove(self) -> None:
        """Delete the directory soon, or immediately without an event loop. Idempotent."""
        remove_beside(self.directory.parent, self._remove)

    def _remove(self) -> None:
        with self._writing:  # it may hang in another thread
            self._output.close()
        self.locked.remove()

    def _located(self, chunk: TensorChunk) -> Piece:
        return Piece(
            file=self.file,
            position=self._layout.position(chunk),
            length=chunk.size_bytes,
            name=chunk.name,
            dtype=chunk.dtype,
            shape=chunk.shape,
            offset_bytes=chunk.offset_bytes,
        )

    def _note(self, chunk: TensorChunk, writing: asyncio.Future[Piece]) -> None:
        if not writing.cancelled() and writing.exception() is None:
            self.log.append(writing.result(), chunk)

    async def _on_disk(self, work: Awaitable[object]) -> None:
        try:
            await work
        except OSError as error:
            raise WeightsUnreadableError(
                f"cannot store weights in {self.directory}: {error.strerror or error}"
            ) from error


async def _next(stream: AsyncIterator[TensorChunk], idle_s: float) -> TensorChunk | None:
    async with asyncio.timeout(idle_s):
        return await anext(stream, None)


def _abandoned(creating: asyncio.Future[Spool]) -> None:
    """Delete a spool that was created after its caller was cancelled."""
    if not creating.cancelled() and creating.exception() is None:
        creating.result().remove()


def _write_all(descriptor: int, data: bytes, position: int) -> None:
    view = memoryview(data)
    while view:
        written = os.pwrite(descriptor, view, position)
        view, position = view[written:], position + written
