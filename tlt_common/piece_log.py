"""The pieces of a release in the order in which they arrived, read by any number of followers while more arrive."""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Iterable

from tlt_common.checkpoint import Piece
from tlt_common.domain.weights import TensorChunk
from tlt_common.errors import UnavailableError

RECENT_PIECES = 4
"""Pieces kept in memory, 4 MiB each: a follower that keeps up need not read them back."""


class PieceLog:
    """
    A growing list of pieces. Belongs to one event loop.

    All workers that receive a release from each other have its pieces in the same order, so that a follower can
    continue at another one at the number it has reached.
    """

    def __init__(self, pieces: Iterable[Piece] = (), *, complete: bool = False) -> None:
        self._pieces = list(pieces)
        self._is_complete = complete
        self._failure = ""
        self._recent: OrderedDict[int, TensorChunk] = OrderedDict()
        self._changed = asyncio.Event()

    def __len__(self) -> int:
        return len(self._pieces)

    @property
    def is_complete(self) -> bool:
        """Whether no more pieces follow."""
        return self._is_complete

    def append(self, piece: Piece, chunk: TensorChunk) -> None:
        """Add the next piece and its content."""
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
        """End all followers with an error: the rest of the release will not arrive."""
        self._failure = why
        self._recent.clear()
        self._notify()

    async def follow(self, from_piece: int = 0) -> AsyncIterator[TensorChunk]:
        """
        Yield the content of pieces from number `from_piece` on, waiting for those that have not arrived.

        Raises:
            UnavailableError: The rest will not arrive, or the file cannot be read any more.
        """
        number = from_piece
        while True:
            changed = self._changed
            if number < len(self._pieces):
                yield await self._content(number)
                number += 1
            elif self._failure:
                raise UnavailableError(self._failure)
            elif self._is_complete:
                return
            else:
                await changed.wait()

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

    async def _content(self, number: int) -> TensorChunk:
        if (chunk := self._recent.get(number)) is not None:
            return chunk
        try:
            return await asyncio.to_thread(self._pieces[number].read)
        except OSError as error:
            raise UnavailableError(f"the weights can no longer be read: {error}") from error

    def _notify(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()
