"""In-memory frame store, for tests and for caches without a Redis process."""

import time
from collections.abc import AsyncIterator, Sequence

from tlt_cache.entry import StoredFrame, entry_of
from tlt_cache.eviction import spare_bytes, victims
from tlt_cache.frame_store import NO_CURSORS, Cursors
from tlt_cache.selection import choose
from tlt_common.domain.hidden import CacheUsage, EncodedFrame


class MemoryFrameStore:
    """A FrameStore in this process's memory."""

    def __init__(self, *, budget_bytes: int) -> None:
        self._budget_bytes = budget_bytes
        self._frames: dict[int, StoredFrame] = {}
        self._sequence = 0
        self._used_bytes = 0
        self._evicted = 0

    async def put(self, frames: Sequence[EncodedFrame]) -> int:
        return sum(self._put(frame) for frame in frames)

    def _put(self, frame: EncodedFrame) -> bool:
        if frame.size_bytes > self._budget_bytes:
            return False
        if self._used_bytes + frame.size_bytes > self._budget_bytes:
            self._make_room(frame.size_bytes)
        # From the clock, so that it is higher than before a restart.
        self._sequence = max(self._sequence + 1, time.time_ns() // 1000)
        self._frames[self._sequence] = StoredFrame(entry=entry_of(frame, self._sequence), blob=frame.blob)
        self._used_bytes += frame.size_bytes
        return True

    async def take(
        self, *, max_tokens: int, seed: int, min_policy_version: int = 0, newer_than: Cursors = NO_CURSORS
    ) -> AsyncIterator[StoredFrame]:
        after = newer_than.get(0, 0)
        entries = [frame.entry for frame in self._frames.values() if frame.entry.sequence > after]
        for entry in choose(entries, max_tokens=max_tokens, seed=seed, min_policy_version=min_policy_version):
            if entry.sequence in self._frames:
                yield self._frames[entry.sequence]

    async def usage(self) -> CacheUsage:
        return CacheUsage(
            frames=len(self._frames),
            tokens=sum(frame.entry.tokens for frame in self._frames.values()),
            used_bytes=self._used_bytes,
            budget_bytes=self._budget_bytes,
            evicted=self._evicted,
        )

    async def ping(self) -> None:
        pass

    async def aclose(self) -> None:
        pass

    def _make_room(self, needed_bytes: int) -> None:
        spare = spare_bytes(used_bytes=self._used_bytes, needed_bytes=needed_bytes, budget_bytes=self._budget_bytes)
        for entry in victims([frame.entry for frame in self._frames.values()], spare):
            del self._frames[entry.sequence]
            self._used_bytes -= entry.size_bytes
            self._evicted += 1
