"""A release that a worker serves, has staged or is receiving."""

import asyncio
from pathlib import Path

from tlt_common.aio import Blocks
from tlt_common.domain.weights import ReleaseId, ServedRelease, Staged
from tlt_common.errors import StaleVersionError, UnavailableError, WeightsError
from tlt_common.weights.checkpoint import pieces_in
from tlt_common.weights.linked_spool import LinkedSpool
from tlt_common.weights.locked_directory import LockedDirectory
from tlt_common.weights.piece_log import PieceLog
from tlt_common.weights.received_spool import ReceivedSpool


class HeldRelease:
    """
    A release and where its files are. Peers follow it from the moment it begins to arrive.

    Attributes:
        id: The release, with its digest once it is staged.
        uri: Where it was published; None if it was streamed.
        base: The release that must be served until the switch; None: any.
        directory: Directory of its files; None until it is staged.
        staged: Result of staging; None until it is staged.
        incoming: The spool or linked file in which it arrives.
        turn: Held by the call that receives the release; repeated calls wait for it.
        receiving: The part of that call which `remove` ends.
    """

    def __init__(
        self,
        release: ReleaseId,
        *,
        uri: str | None = None,
        directory: Path | None = None,
        base: ReleaseId | None = None,
    ) -> None:
        self.id = release
        self.uri = uri
        self.base = base
        self.directory = directory
        self.staged: Staged | None = None
        self.incoming: ReceivedSpool | LinkedSpool | None = None
        self.turn = asyncio.Lock()
        self._copy: LockedDirectory | None = None
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
        return isinstance(self.incoming, ReceivedSpool) or self._copy is not None

    def arrive(self, incoming: ReceivedSpool | LinkedSpool) -> None:
        """Let peers follow what arrives from now on."""
        self.incoming, self._log = incoming, incoming.log
        self._arrived.set()

    def lose(self, why: str) -> None:
        """Delete what has arrived, since the rest will not. Peers may ask again; they wait for the next attempt."""
        if self.incoming is not None:
            self.incoming.discard(why)
            self.incoming, self._log = None, None
            self._arrived.clear()

    def copied(self, locked: LockedDirectory) -> None:
        """Delete this directory with the release."""
        self._copy = locked

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

    async def log(self) -> PieceLog:
        """
        Return its pieces, which may still be arriving.

        Raises:
            UnavailableError: They will not arrive.
        """
        while self._log is None:
            if self._ended or self.directory is not None:
                self._log = await self._read()
            else:
                await self._arrived.wait()
        return self._log

    def remove(self, why: str) -> None:
        """Delete what this worker copied, and end the call that receives it and those that follow it."""
        self._ended = self._ended or why
        self._arrived.set()
        self.receiving.end()
        if self.incoming is not None:
            self.incoming.discard(why)
        if self._copy is not None:
            self._copy.remove()

    async def _read(self) -> PieceLog:
        """Return the pieces of files that were found where they are."""
        if self.directory is None:
            raise UnavailableError(self._ended)
        try:
            return PieceLog.of(await asyncio.to_thread(pieces_in, self.directory), digest=self.id.digest)
        except (OSError, WeightsError) as error:
            raise UnavailableError(f"{self.directory} cannot be read: {error}") from error
