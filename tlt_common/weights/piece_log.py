"""Pieces of a release in order of arrival, which any number of followers can read while more arrive."""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Iterable

from tlt_common.disk import on_disk
from tlt_common.domain.weights import ReleaseEnd, TensorChunk
from tlt_common.errors import UnavailableError
from tlt_common.weights.message_buffers import keep_message_buffers
from tlt_common.weights.safetensors_file import Piece

RECENT_PIECES = 4
"""Pieces kept in memory, 4 MiB each: a follower that keeps up need not read them back."""


class PieceLog:
    """
    A growing list of pieces. Belongs to one event loop.

    All workers that receive a release from each other have its pieces in the same order, so that a follower can
    continue at another one at the number it has reached.
    """

    def __init__(self) -> None:
        self._pieces: list[Piece] = []
        self._is_complete = False
        self._failure = ""
        self._recent: OrderedDict[int, TensorChunk] = OrderedDict()
        self._changed = asyncio.Event()

    @classmethod
    def of(cls, pieces: Iterable[Piece]) -> "PieceLog":
        """Return the log of a complete release."""
        log = cls()
        log._pieces += pieces
        log.finish()
        return log

    def __len__(self) -> int:
        return len(self._pieces)

    @property
    def is_complete(self) -> bool:
        """Whether the log is complete."""
        return self._is_complete

    @property
    def end(self) -> ReleaseEnd:
        """The end of the release, once it is complete."""
        return ReleaseEnd(pieces=len(self._pieces))

    def append(self, piece: Piece, chunk: TensorChunk | None = None) -> None:
        """Append a piece, and its content if it is in memory."""
        if chunk is not None:
            self._recent[len(self._pieces)] = chunk
            if len(self._recent) > RECENT_PIECES:
                self._recent.popitem(last=False)
        self._pieces.append(piece)
        self._notify()

    def finish(self) -> None:
        """Mark the log as complete."""
        self._is_complete = True
        self._recent.clear()
        self._notify()

    def fail(self, why: str) -> None:
        """End all followers with an error, since the rest of the release will not arrive."""
        self._failure = why
        self._recent.clear()
        self._notify()

    async def follow(self, from_piece: int = 0) -> AsyncIterator[TensorChunk]:
        """
        Yield the content of pieces from number `from_piece` on, waiting for pieces that have not arrived.

        Raises:
            UnavailableError: The rest will not arrive, or the file can no longer be read.
        """
        keep_message_buffers()
        number = from_piece
        while await self._has(number):
            yield await self._content(number)
            number += 1

    async def until_complete(self) -> None:
        """
        Wait until all pieces have arrived.

        Raises:
            UnavailableError: The rest will not arrive.
        """
        while not self._is_complete:
            if self._failure:
                raise UnavailableError(self._failure)
            await self._changed.wait()

    async def _has(self, number: int) -> bool:
        """Wait for a piece; return False if the log ends before it. A failed log has no file any more."""
        while not self._failure:
            if number < len(self._pieces):
                return True
            if self._is_complete:
                return False
            await self._changed.wait()
        raise UnavailableError(self._failure)

    async def _content(self, number: int) -> TensorChunk:
        if (chunk := self._recent.get(number)) is not None:
            return chunk
        try:
            return await on_disk(self._pieces[number].read)
        except OSError as error:
            raise UnavailableError(f"the weights can no longer be read: {error}") from error

    def _notify(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()
