"""Interface of frame stores. Redis is the production store; the in-memory store honors the same contract."""

from collections.abc import AsyncIterator
from typing import Protocol

from tlt_cache.entry import StoredFrame
from tlt_common.domain.hidden import CacheUsage, EncodedFrame


class FrameStore(Protocol):
    """
    Frames within a byte budget that is never exceeded. A store keeps blobs unchanged and indexes their headers.

    Every call raises CacheUnavailableError while the store is unreachable, and succeeds again once it is reachable.
    """

    async def put(self, frame: EncodedFrame) -> bool:
        """Store a frame, evicting others if necessary. Return False if it was dropped because it does not fit."""
        ...

    def take(
        self, *, max_tokens: int, seed: int, min_policy_version: int = 0, newer_than: int = 0
    ) -> AsyncIterator[StoredFrame]:
        """
        Yield the frames that `selection.choose` chooses from the latest. They stay stored; those evicted are skipped.

        Args:
            max_tokens: Maximum number of states.
            seed: Seed of the choice.
            min_policy_version: Oldest policy to include.
            newer_than: Choose from frames with a higher sequence number only. Sequence numbers increase over restarts
                and flushes of the store.
        """
        ...

    async def usage(self) -> CacheUsage:
        """Return the current usage."""
        ...

    async def ping(self) -> None:
        """Return if the store is reachable."""
        ...

    async def aclose(self) -> None:
        """Close connections."""
        ...
