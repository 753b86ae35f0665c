"""Interface of frame stores: Redis in production, and an in-memory store with the same contract."""

from collections.abc import AsyncIterator, Mapping, Sequence
from types import MappingProxyType
from typing import Protocol

from tlt_cache.entry import StoredFrame
from tlt_common.domain.hidden import CacheUsage, EncodedFrame

Cursors = Mapping[int, int]
"""Highest sequence number received of each shard."""
NO_CURSORS: Cursors = MappingProxyType({})


class FrameStore(Protocol):
    """
    Frames within a byte budget that is never exceeded. A store keeps blobs unchanged and indexes their headers.

    A store has one or more shards, which number their frames independently.

    Every call raises CacheUnavailableError while the store is unreachable, and succeeds again once it is reachable.
    """

    async def put(self, frames: Sequence[EncodedFrame]) -> int:
        """
        Store frames, evicting others if necessary. Return how many were stored.

        Frames that do not fit are dropped, and so are frames of a lost shard.
        """
        ...

    def take(
        self, *, max_tokens: int, seed: int, min_policy_version: int = 0, newer_than: Cursors = NO_CURSORS
    ) -> AsyncIterator[StoredFrame]:
        """
        Yield the frames that `selection.choose` picks from the latest ones. They stay stored; evicted ones are skipped.

        Args:
            max_tokens: Maximum number of states.
            seed: Seed of the choice.
            min_policy_version: Oldest policy to include.
            newer_than: Choose from frames with a higher sequence number than their shard has here. Sequence numbers
                keep increasing over restarts and flushes of the store.
        """
        ...

    async def usage(self) -> CacheUsage:
        """Return the current usage."""
        ...

    async def ping(self) -> None:
        """Return if the store is reachable; otherwise raise. Retries lost shards."""
        ...

    async def aclose(self) -> None:
        """Close connections."""
        ...
