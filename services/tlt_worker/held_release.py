"""A release that a worker serves, has staged or is receiving."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

from tlt_common.aio import Blocks
from tlt_common.checkpoint import pieces_in
from tlt_common.domain.weights import ReleaseId, ServedRelease, Staged, TensorChunk
from tlt_common.errors import StaleVersionError, UnavailableError
from tlt_common.incoming import Incoming
from tlt_common.piece_log import PieceLog
from tlt_common.spool_lease import SpoolLease


class HeldRelease:
    """
    A release and where its files are. Peers follow it from the moment it begins to arrive.

    Attributes:
        id: The release, with its digest once it is staged.
        uri: Where it was published; None if it was streamed.
        directory: Directory of its files; None until it is staged.
        staged: Result of staging; None until it is staged.
        turn: Held by the call that receives the release; repeated calls wait for it.
        receiving: The part of that call which `remove` ends.
    """

    def __init__(self, release: ReleaseId, *, uri: str | None = None, directory: Path | None = None) -> None:
        self.id = release
        self.uri = uri
        self.directory = directory
        self.staged: Staged | None = None
        self.incoming: Incoming | None = None
        self.turn = asyncio.Lock()
        self._copy: SpoolLease | None = None
        self._log: PieceLog | None = None
        self._arrived = asyncio.Event()
        self.receiving = Blocks()
        self._ended = ""

    @property
    def served(self) -> ServedRelease:
        """Description for gateways."""
        return ServedRelease(id=self.id, uri=self.uri)

    @property
    def is_copied(self) -> bool:
        """Whether this worker made a copy, which it deletes with the release."""
        return self.incoming is not None or self._copy is not None

    async def begin(self, spool_dir: Path, *, max_bytes: int) -> Incoming:
        """Return the spool that receives the release, with what arrived in an earlier attempt."""
        if self.incoming is None:
            self.incoming = await Incoming.begin(spool_dir, max_bytes=max_bytes)
            self._log = self.incoming.log
            self._arrived.set()
        return self.incoming

    def copied(self, lease: SpoolLease) -> None:
        """Delete this directory with the release."""
        self._copy = lease

    def complete(self, release: ReleaseId, directory: Path, staged: Staged) -> None:
        """Mark the release as staged in `directory`."""
        self.id, self.directory, self.staged = release, directory, staged
        self._arrived.set()

    def require_wanted(self) -> None:
        """
        Check that the release has not been removed meanwhile.

        Raises:
            StaleVersionError: It has; the message says why.
        """
        if self._ended:
            raise StaleVersionError(self._ended, field="release")

    async def follow(self, from_piece: int) -> AsyncIterator[TensorChunk]:
        """
        Yield its pieces, including those that have yet to arrive.

        Raises:
            UnavailableError: The rest will not arrive.
        """
        if self.directory is None:
            await self._arrived.wait()
        log = await self._pieces()
        async for chunk in log.follow(from_piece):
            yield chunk

    async def count(self) -> int:
        """Return the number of its pieces; the release must be complete."""
        return len(await self._pieces())

    def remove(self, why: str) -> None:
        """Delete what this worker copied, and end the call that receives it and those that follow it."""
        self._ended = self._ended or why
        self._arrived.set()
        self.receiving.end()
        if self.incoming is not None:
            self.incoming.discard(why)
        if self._copy is not None:
            self._copy.remove()

    async def _pieces(self) -> PieceLog:
        if self._log is None:
            if self.directory is None:
                raise UnavailableError(self._ended or "the release does not arrive as tensors")
            try:
                self._log = PieceLog(await asyncio.to_thread(pieces_in, self.directory), complete=True)
            except (OSError, ValueError, KeyError) as error:
                raise UnavailableError(f"{self.directory} cannot be read: {error}") from error
        return self._log
