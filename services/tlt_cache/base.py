"""What the service needs of a store. Redis is the real one; the one in memory keeps the same contract."""

from collections.abc import AsyncIterator
from typing import Protocol

from tlt_common.domain.hidden import CacheUsage, HiddenFrame


class FrameStore(Protocol):
    """
    Frames under a byte budget that is never exceeded.

    Every call raises CacheUnavailableError when the store cannot be reached; it works again when the store does.
    """

    async def put(self, frame: HiddenFrame) -> bool:
        """Keep a frame, evicting others where room is needed. False: it is larger than the whole budget."""
        ...

    def take(self, *, max_tokens: int, seed: int, min_policy_version: int = 0) -> AsyncIterator[HiddenFrame]:
        """Hand out frames as `selection.choose` chooses them. They stay; what was evicted meanwhile is left out."""
        ...

    async def usage(self) -> CacheUsage:
        """Say how full it is."""
        ...

    async def ping(self) -> None:
        """Return if the store can be reached."""
        ...

    async def aclose(self) -> None:
        """Let go of connections."""
        ...
