"""A release that a worker serves, has staged or is receiving."""

import asyncio
from pathlib import Path

from tlt_common.aio import Blocks
from tlt_common.domain.weights import MAX_WEIGHTS_BYTES, ReleaseId, ServedRelease, Staged
from tlt_common.errors import StaleVersionError, UnavailableError, WeightsError
from tlt_common.weights.adapter import adapter_entries
from tlt_common.weights.checkpoint import pieces_in, pieces_of
from tlt_common.weights.digest import TENSORS, tensors_digest
from tlt_common.weights.locked_directory import LockedDirectory
from tlt_common.weights.piece_log import PieceLog
from tlt_common.weights.safetensors_file import Piece
from tlt_common.weights.spool import Spool
from tlt_worker.checkpoints.adapted import AdaptedCheckpoint
from tlt_worker.checkpoints.finite import FiniteCheck


class HeldRelease:
    """
    A release and the location of its files. Peers can follow it from the moment it starts to arrive.

    It may arrive in several attempts, each of which continues the one before.

    Args:
        spool_dir: Directory to receive it in; None if its files already exist.
        max_bytes: Maximum size of received weights.

    Attributes:
        id: The release, with its digest once it is staged.
        uri: URI where it was published; None if it was streamed.
        base: The release that must be served until the switch; None for any.
        merged_into: The whole weights that it is an adapter of; None for whole weights.
        adapter_name: Name by which requests may ask for the adapter; empty: none.
        directory: Directory that the engine loads; None until it is staged.
        shared: Directory with the embedding and head that are served then.
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
        merged_into: "HeldRelease | None" = None,
        adapter_name: str = "",
    ) -> None:
        self.id = release
        self.uri = uri
        self.base = base
        self.merged_into = merged_into
        self.adapter_name = adapter_name
        self.directory = directory
        self.shared = directory
        self.staged: Staged | None = None
        self.incoming: Spool | None = None
        self.turn = asyncio.Lock()
        self._spool_dir = spool_dir
        self._max_bytes = max_bytes
        self._copies: list[LockedDirectory] = []
        self._tensors_digest = ""
        self._log: PieceLog | None = None
        self._arrived = asyncio.Event()
        self.receiving = Blocks()
        self._ended = ""

    @property
    def served(self) -> ServedRelease:
        """The release as gateways see it."""
        base = None if self.merged_into is None else self.merged_into.id
        return ServedRelease(id=self.id, uri=self.uri, adapter_base=base, adapter_name=self.adapter_name)

    @property
    def whole(self) -> "HeldRelease":
        """The whole weights that this is, or is an adapter of."""
        return self.merged_into or self

    @property
    def is_copied(self) -> bool:
        """Whether this worker made a copy, which it deletes with the release."""
        return self.incoming is not None or bool(self._copies)

    @property
    def pieces(self) -> int:
        """Number of pieces after which the next attempt continues."""
        return 0 if self.incoming is None else len(self.incoming.log)

    async def spool(self) -> Spool:
        """
        Return the spool to write the release to, with the pieces of earlier attempts.

        Raises:
            WeightsUnreadableError: The spool cannot be created.
        """
        if self.incoming is None:
            assert self._spool_dir is not None  # noqa: S101 - it is to be received
            self.incoming = await Spool.begin(self._spool_dir, max_bytes=self._max_bytes, check=FiniteCheck().chunk)
            self._log = self.incoming.log
            self._arrived.set()
        return self.incoming

    def copied(self, locked: LockedDirectory) -> None:
        """Mark this directory as one to delete with the release."""
        self._copies.append(locked)

    def complete(self, release: ReleaseId, directory: Path, staged: Staged, *, shared: Path | None = None) -> None:
        """Mark the release as staged in `directory`, with embedding and head in `shared` if they are elsewhere."""
        self.id, self.directory, self.shared, self.staged = release, directory, shared or directory, staged
        self._arrived.set()

    def tensors_digest(self) -> str:
        """
        Return the digest of all tensors, which is computed once. Blocks on disk reads.

        Raises:
            OSError: A file cannot be read.
        """
        if not self._tensors_digest:
            assert self.directory is not None  # noqa: S101 - asked for what is served
            known = self.id.digest if self.id.digest.startswith(TENSORS) else ""
            self._tensors_digest = known or tensors_digest(pieces_in(self.directory))
        return self._tensors_digest

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
        for copy in self._copies:
            copy.remove()

    async def _read(self) -> PieceLog:
        """Return the pieces of files that are read in place."""
        if self.directory is None:
            raise UnavailableError(self._ended)
        try:
            return PieceLog.of(await asyncio.to_thread(_pieces_of, self.directory))
        except (OSError, WeightsError) as error:
            raise UnavailableError(f"{self.directory} cannot be read: {error}") from error


def _pieces_of(directory: Path) -> tuple[Piece, ...]:
    """Return what of a release travels: whole weights, or an adapter without its base."""
    if (adapted := AdaptedCheckpoint.at(directory)) is None:
        return pieces_in(directory)
    return tuple(piece for entry in adapter_entries(adapted.adapter) for piece in pieces_of(entry))
