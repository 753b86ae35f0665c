"""The attempts to receive one release: in a spool of this worker, or by a link to a file on this machine."""

from pathlib import Path

from tlt_common.domain.weights import SpoolFile
from tlt_common.weights.linked_spool import LinkedSpool
from tlt_common.weights.received_spool import ReceivedSpool
from tlt_worker.checkpoints.finite import FiniteCheck
from tlt_worker.weights.held_release import HeldRelease


class ReleaseAttempts:
    """What has arrived of a release. A spool is continued by the next attempt; what was only linked is not ours."""

    def __init__(self, held: HeldRelease, spool_dir: Path, *, max_bytes: int) -> None:
        self._held = held
        self._spool_dir = spool_dir
        self._max_bytes = max_bytes

    @property
    def pieces(self) -> int:
        """Number of pieces after which the next attempt continues."""
        return len(self._held.incoming.log) if isinstance(self._held.incoming, ReceivedSpool) else 0

    async def spool(self) -> ReceivedSpool:
        """
        Return the spool that receives the release, with what arrived in an earlier attempt.

        Raises:
            WeightsUnreadableError: It cannot be created.
        """
        if not isinstance(self._held.incoming, ReceivedSpool):
            self._held.lose("the release is received anew")
            self._held.arrive(
                await ReceivedSpool.begin(self._spool_dir, max_bytes=self._max_bytes, check=FiniteCheck().chunk)
            )
        assert isinstance(self._held.incoming, ReceivedSpool)  # noqa: S101 - it was, or has just arrived
        return self._held.incoming

    async def link(self, file: SpoolFile) -> LinkedSpool:
        """
        Link the file to which another process writes the release.

        Raises:
            WeightsUnreadableError: It cannot be linked.
        """
        linked = await LinkedSpool.begin(self._spool_dir, file, max_bytes=self._max_bytes, check=FiniteCheck().piece)
        self._held.lose("the release is received anew")
        self._held.arrive(linked)
        return linked

    def lose(self, why: str) -> None:
        """Give up what was linked: its owner, or the way to it, is lost."""
        if isinstance(self._held.incoming, LinkedSpool):
            self._held.lose(why)

    async def finish(self) -> tuple[Path, str]:
        """
        Complete the release; return its directory and digest.

        Raises:
            WeightsError: As for `Spool.finish` and `LinkedSpool.finish`.
        """
        incoming = self._held.incoming
        assert incoming is not None  # noqa: S101 - something has arrived
        await incoming.finish()
        return incoming.directory, incoming.digest
