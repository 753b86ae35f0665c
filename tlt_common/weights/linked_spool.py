"""A release that arrives in a file which another process on this machine writes."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from tlt_common.disk import on_disk
from tlt_common.domain.weights import ReleaseEnd, SpoolFile, WrittenPiece
from tlt_common.errors import UnavailableError, WeightsUnreadableError
from tlt_common.weights.layout import SpoolLayout
from tlt_common.weights.link import link
from tlt_common.weights.locked_directory import LockedDirectory
from tlt_common.weights.piece_log import PieceLog
from tlt_common.weights.safetensors_file import Piece
from tlt_common.weights.spool import FILE_NAME


class LinkedSpool:
    """
    Follows the owner of a linked file. What has been written can be followed through `log` meanwhile.

    The bytes are not copied: pieces are checked by their form and by `check`, and the digest is the owner's.

    Args:
        check: Looks at each piece in a thread, and raises WeightsError if it is none that is accepted.
    """

    def __init__(
        self, locked: LockedDirectory, *, max_bytes: int, check: Callable[[Piece], None] | None = None
    ) -> None:
        self._locked = locked
        self._check = check
        self._layout = SpoolLayout(max_bytes=max_bytes)
        self._file = locked.directory / FILE_NAME
        self.log = PieceLog(self._file)
        self.digest = ""

    @classmethod
    async def begin(
        cls, parent: Path, file: SpoolFile, *, max_bytes: int, check: Callable[[Piece], None] | None = None
    ) -> "LinkedSpool":
        """
        Link the file to a new directory in `parent`.

        Raises:
            WeightsUnreadableError: As for `link`.
        """
        linking = asyncio.ensure_future(on_disk(link, parent, file))
        try:
            return cls(await asyncio.shield(linking), max_bytes=max_bytes, check=check)
        except asyncio.CancelledError:
            linking.add_done_callback(_abandoned)
            raise

    @property
    def directory(self) -> Path:
        """Directory of the link."""
        return self._locked.directory

    async def receive(self, parts: AsyncIterator[WrittenPiece | ReleaseEnd], *, idle_s: float) -> None:
        """
        Follow the owner to the end of the release.

        Raises:
            WeightsError: A piece does not continue its tensor, exceeds the maximum size, or as for `check`.
            WeightsUnreadableError: The file cannot be read.
            UnavailableError: The stream ended early.
            TimeoutError: Nothing was written for `idle_s` seconds.
        """
        while (part := await _next(parts, idle_s)) is not None:
            if isinstance(part, ReleaseEnd):
                if part.pieces != len(self.log):
                    raise UnavailableError(f"the stream ended after {len(self.log)} of {part.pieces} pieces")
                self.digest = part.digest
                return
            position = self._layout.position(part)
            self._layout.place(part)
            piece = Piece(
                file=self._file,
                position=position,
                length=part.size_bytes,
                name=part.name,
                dtype=part.dtype,
                shape=part.shape,
                offset_bytes=part.offset_bytes,
            )
            self.log.append(piece)
            if self._check is not None:
                await self._checked(self._check, piece)
        raise UnavailableError(f"the stream ended after {len(self.log)} of unknown pieces")

    async def finish(self) -> None:
        """
        Check that the owner has completed the file.

        Raises:
            WeightsError: There is no tensor, or one is incomplete.
            WeightsUnreadableError: The file's header is another, or the file is too short.
        """
        header = self._layout.header()
        try:
            await on_disk(self._require_complete, header)
        except OSError as error:
            raise WeightsUnreadableError(f"cannot read {self._file}: {error.strerror or error}") from error
        self.log.finish(self.digest)

    async def _checked(self, check: Callable[[Piece], None], piece: Piece) -> None:
        try:
            await asyncio.to_thread(check, piece)
        except OSError as error:
            raise WeightsUnreadableError(f"cannot read {self._file}: {error.strerror or error}") from error

    def discard(self, why: str) -> None:
        """Delete the link and end all followers."""
        self.log.fail(why)
        self._locked.remove()

    def _require_complete(self, header: bytes) -> None:
        with self._file.open("rb", buffering=0) as file:
            size = len(header) + self._layout.size_bytes
            if file.read(len(header)) != header or self._file.stat().st_size < size:
                raise WeightsUnreadableError(f"{self._file} is not complete")


async def _next(parts: AsyncIterator[WrittenPiece | ReleaseEnd], idle_s: float) -> WrittenPiece | ReleaseEnd | None:
    async with asyncio.timeout(idle_s):
        return await anext(parts, None)


def _abandoned(linking: asyncio.Future[LockedDirectory]) -> None:
    """Delete a link that was created after its caller had been cancelled."""
    if not linking.cancelled() and linking.exception() is None:
        linking.result().remove()
