"""A release that is being received into a spool."""

import asyncio
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path

from tlt_common.disk import on_disk
from tlt_common.domain.weights import TensorChunk
from tlt_common.errors import WeightsUnreadableError
from tlt_common.weights.heap import keep_message_buffers
from tlt_common.weights.piece_log import PieceLog
from tlt_common.weights.safetensors_file import Piece
from tlt_common.weights.spool import Spool

IDLE_S = 60.0
"""Seconds without a tensor after which a stream is given up."""


class ReceivedSpool:
    """
    Receives tensors into a new spool. What has arrived can be followed through `log` meanwhile.

    Methods raise WeightsUnreadableError if the disk is full or fails.

    Args:
        check: Looks at each piece in the thread that writes it, and raises WeightsError if it is none that is accepted.
    """

    def __init__(self, spool: Spool, check: Callable[[TensorChunk], None] | None = None) -> None:
        self._spool = spool
        self._check = check
        self.log = PieceLog(spool.file)
        self.size_bytes = 0

    @classmethod
    async def begin(
        cls, parent: Path, *, max_bytes: int, check: Callable[[TensorChunk], None] | None = None
    ) -> "ReceivedSpool":
        """Create the spool in `parent`."""
        keep_message_buffers()
        creating = asyncio.ensure_future(on_disk(Spool, parent, max_bytes=max_bytes))
        try:
            return cls(await asyncio.shield(creating), check)
        except asyncio.CancelledError:
            creating.add_done_callback(_abandoned)
            raise
        except OSError as error:
            raise _unwritable(parent, error) from error

    @property
    def spool(self) -> Spool:
        """The spool."""
        return self._spool

    @property
    def directory(self) -> Path:
        """Directory of the spool."""
        return self._spool.directory

    @property
    def digest(self) -> str:
        """Digest of what has arrived."""
        return self._spool.digest

    async def receive(self, tensors: AsyncIterator[TensorChunk], *, skip: int = 0, idle_s: float = IDLE_S) -> None:
        """
        Receive tensors to the end of the stream, omitting the first `skip` pieces. Does not finish the spool.

        Raises:
            WeightsError: As for `Spool.write` and `check`.
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
                    await self._written(previous)
                # Written in a thread while the next piece is received; followers get it as soon as it is written.
                writing = asyncio.ensure_future(on_disk(self._write, chunk))
                writing.add_done_callback(partial(self._note, chunk))
        finally:
            if writing is not None:
                await self._written(writing)

    async def finish(self) -> None:
        """
        Complete the file.

        Raises:
            WeightsError: As for `Spool.finish`.
        """
        try:
            self.size_bytes = await on_disk(self._spool.finish)
        except OSError as error:
            raise _unwritable(self._spool.directory, error) from error
        self.log.finish(self.digest)

    def discard(self, why: str) -> None:
        """Delete the spool and end all followers."""
        self.log.fail(why)
        self._spool.remove()

    def _write(self, chunk: TensorChunk) -> Piece:
        if self._check is not None:
            self._check(chunk)
        return self._spool.write(chunk)

    def _note(self, chunk: TensorChunk, writing: asyncio.Future[Piece]) -> None:
        if not writing.cancelled() and writing.exception() is None:
            self.log.append(writing.result(), chunk)

    async def _written(self, writing: asyncio.Future[Piece]) -> None:
        try:
            await writing
        except OSError as error:
            raise _unwritable(self._spool.directory, error) from error


async def _next(tensors: AsyncIterator[TensorChunk], idle_s: float) -> TensorChunk | None:
    async with asyncio.timeout(idle_s):
        return await anext(tensors, None)


def _abandoned(creating: asyncio.Future[Spool]) -> None:
    """Delete a spool that was created after its caller had been cancelled."""
    if not creating.cancelled() and creating.exception() is None:
        creating.result().remove()


def _unwritable(directory: Path, error: OSError) -> WeightsUnreadableError:
    return WeightsUnreadableError(f"cannot store weights in {directory}: {error.strerror or error}")
