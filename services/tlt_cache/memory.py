"""Frames in this process: for tests, and for a cache that needs no other process."""

from collections.abc import AsyncIterator

from tlt_cache.entry import Entry, entry_of
from tlt_cache.eviction import victims
from tlt_cache.selection import choose
from tlt_common.domain.hidden import CacheUsage, HiddenFrame


class MemoryStore:
    """A FrameStore without a store behind it."""

    def __init__(self, *, budget_bytes: int) -> None:
        self._budget_bytes = budget_bytes
        self._frames: dict[int, tuple[Entry, HiddenFrame]] = {}
        self._sequence = 0
        self._used_bytes = 0
        self._evicted = 0

    async def put(self, frame: HiddenFrame) -> bool:
        if frame.size_bytes > self._budget_bytes:
            return False
        if self._used_bytes + frame.size_bytes > self._budget_bytes:
            self._make_room(frame.size_bytes)
        self._sequence += 1
        self._frames[self._sequence] = (entry_of(frame, self._sequence), frame)
        self._used_bytes += frame.size_bytes
        return True

    async def take(self, *, max_tokens: int, seed: int, min_policy_version: int = 0) -> AsyncIterator[HiddenFrame]:
        entries = [entry for entry, _ in self._frames.values()]
        for entry in choose(entries, max_tokens=max_tokens, seed=seed, min_policy_version=min_policy_version):
            if entry.sequence in self._frames:
                yield self._frames[entry.sequence][1]

    async def usage(self) -> CacheUsage:
        return CacheUsage(
            frames=len(self._frames),
            tokens=sum(entry.tokens for entry, _ in self._frames.values()),
            used_bytes=self._used_bytes,
            budget_bytes=self._budget_bytes,
            evicted=self._evicted,
        )

    async def ping(self) -> None:
        pass

    async def aclose(self) -> None:
        pass

    def _make_room(self, needed_bytes: int) -> None:
        entries = tuple(entry for entry, _ in self._frames.values())
        for entry in victims(entries, needed_bytes=needed_bytes, budget_bytes=self._budget_bytes):
            del self._frames[entry.sequence]
            self._used_bytes -= entry.size_bytes
            self._evicted += 1
