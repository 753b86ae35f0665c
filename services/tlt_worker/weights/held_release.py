"""A release that a worker serves, has staged or is receiving."""

import asyncio
from pathlib import Path

from tlt_common.aio import Blocks
from tlt_common.domain.weights import MAX_WEIGHTS_BYTES, ReleaseId, ServedRelease, SpoolFile, Staged
from tlt_common.errors import StaleVersionError, UnavailableError, WeightsError
from tlt_common.weights.checkpoint import pieces_in
from tlt_common.weights.locked_directory import LockedDirectory
from tlt_common.weights.piece_log import PieceLog
from tlt_common.weights.spool import Spool
from tlt_worker.checkpoints.finite import FiniteCheck


class HeldRelease:
    """
    A release and the location of its files. Peers can follow it from the moment it starts to arrive.

    It may arrive in several attempts. The next attempt continues a written spool; linked files belong to another
    process and are given up.

    Args:
        spool_dir: Directory to receive it in; None if its files already exist.
        max_bytes: Maximum size of received weights.

    Attributes:
        id: The release, with its digest once it is staged.
        uri: URI where it was published; None if it was streamed.
        base: The release that must be served until the switch; None for any.
        directory: Directory of its files; None until it is staged.
        staged: Result of staging; None until it is staged.
        incoming: The spool in which it arrives.
        turn: Held by the call that receives the release; repeated calls wait for it.
        receiving: The part of that call that `remove` cancels.
    """

    def __init__(
        self,
        release: ReleaseId,
        *,
        spool_dir: Path | None = None,
        max_bytes: int = MAX_WEIGHTS_BYTES,
        uri: str | None = None,
        directory: Path | None = None,
        base: ReleaseId | None = None,
    ) -> None:
        self.id = release
        self.uri = uri
        self.base = base
        self.directory = directory
        self.staged: Staged | None = None
        self.incoming: Spool | None = None
        self.turn = asyncio.Lock()
        self._spool_dir = spool_dir
        self._max_bytes = max_bytes
        self._copy: LockedDirectory | None = None
        self._log: PieceLog | None = None
        self._arrived = asyncio.Event()
        self.receiving = Blocks()
        self._ended = ""

    @property
    def served(self) -> ServedRelease:
        """The release as gateways see it."""
        return ServedRelease(id=self.id, uri=self.uri)

    @property
    def is_copied(self) -> bool:
        """Whether this worker made a copy, which it deletes with the release."""
        return self._written is not None or self._copy is not None

    @property
    def pieces(self) -> int:
        """Number of pieces received, after which the next attempt continues."""
        return 0 if self._written is None else len(self._written.log)

    async def spool(self) -> Spool:
        """
        Return the spool to write the release to, with the pieces of earlier attempts.

        Raises:
            WeightsUnreadableError: The spool cannot be created.
        """
        if (written := self._written) is not None:
            return written
        self._give_up("the release is received anew")
        return self._arrive(await self._begun(None))

    async def link(self, file: SpoolFile) -> Spool:
        """
        Link the file to which another process writes the release. Pieces received before are deleted.

        Raises:
            WeightsUnreadableError: The file cannot be linked; pieces received before stay.
        """
        linked = await self._begun(file)
        self._give_up("the release is received anew")
        return self._arrive(linked)

    def lose_link(self, why: str) -> None:
        """Give up linked files because their owner, or the connection to it, is lost."""
        if self.incoming is not None and self.incoming.is_linked:
            self._give_up(why)

    def copied(self, locked: LockedDirectory) -> None:
        """Mark this directory as a copy to delete with the release."""
        self._copy = locked

    def complete(self, release: ReleaseId, directory: Path, staged: Staged) -> None:
        """Mark the release as staged in `directory`."""
        self.id, self.directory, self.staged = release, directory, staged
        self._arrived.set()

    def require_wanted(self) -> None:
        """
        Check that the release has not been removed.

        Raises:
            StaleVersionError: It has been removed; the message says why.
        """
        if self._ended:
            raise StaleVersionError(self._ended, field="release")

    async def log(self) -> PieceLog:
        """
        Return the pieces of the release, which may still be arriving.

        Raises:
            UnavailableError: They will never arrive.
        """
        while self._log is None:
            if self._ended or self.directory is not None:
                self._log = await self._read()
            else:
                await self._arrived.wait()
        return self._log

    def remove(self, why: str) -> None:
        """Delete the copies that this worker made, and cancel the calls that receive or follow the release."""
        self._ended = self._ended or why
        self._arrived.set()
        self.receiving.end()
        if self.incoming is not None:
            self.incoming.discard(why)
        if self._copy is not None:
            self._copy.remove()

    @property
    def _written(self) -> Spool | None:
        """The spool in which the release arrives, unless it is linked."""
        return None if self.incoming is None or self.incoming.is_linked else self.incoming

    async def _begun(self, source: SpoolFile | None) -> Spool:
        assert self._spool_dir is not None  # noqa: S101 - it is to be received
        return await Spool.begin(self._spool_dir, max_bytes=self._max_bytes, check=FiniteCheck().chunk, source=source)

    def _arrive(self, incoming: Spool) -> Spool:
        """Let peers follow the release from now on."""
        self.incoming, self._log = incoming, incoming.log
        self._arrived.set()
        return incoming

    def _give_up(self, why: str) -> None:
        """
        Delete the received pieces, since the rest will not arrive.

        Peers may ask again; they wait for the next attempt.
        """
        if self.incoming is not None:
            self.incoming.discard(why)
            self.incoming, self._log = None, None
            self._arrived.clear()

    async def _read(self) -> PieceLog:
        """Return the pieces of files that are read in place."""
        if self.directory is None:
            raise UnavailableError(self._ended)
        try:
            return PieceLog.of(await asyncio.to_thread(pieces_in, self.directory), digest=self.id.digest)
        except (OSError, WeightsError) as error:
            raise UnavailableError(f"{self.directory} cannot be read: {error}") from error
