"""Capture gate: engines do not capture while the store is unreachable."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Never

from tlt_cache.frame_store import FrameStore
from tlt_common.aio import Signal
from tlt_common.domain.hidden import CapturePolicy
from tlt_common.errors import CacheUnavailableError
from tlt_common.telemetry import metrics
from tlt_common.telemetry.log import get_logger

log = get_logger(__name__)


class CaptureGate:
    """The current capture policy. Capture is disabled until the store has been reached once."""

    def __init__(self, policy: CapturePolicy) -> None:
        self._policy = policy
        self._reachable: bool | None = None
        self._changed = Signal()

    @property
    def policy(self) -> CapturePolicy:
        """The current policy."""
        return replace(self._policy, enabled=self._policy.enabled and bool(self._reachable))

    async def watch(self) -> AsyncIterator[CapturePolicy]:
        """Yield the policy immediately and after each change. A slow reader skips intermediate changes."""
        while True:
            seen, sent = self._changed.count, self.policy
            yield sent
            while self.policy == sent:
                seen = await self._changed.beyond(seen)

    def note(self, *, reachable: bool, reason: str = "") -> None:
        """Record whether the store is reachable. Logs once per change."""
        if reachable == self._reachable:
            return
        self._reachable = reachable
        metrics.CACHE_STORE_UP.set(reachable)
        if reachable:
            log.info("store_reachable")
        else:
            log.warning("store_unreachable", reason=reason, effect="capture is disabled until the store is reachable")
        self._changed.set()

    async def probe(self, store: FrameStore, every_s: float) -> Never:
        """Check periodically whether the store is reachable, until cancelled."""
        while True:
            try:
                await store.ping()
                usage = await store.usage()
            except CacheUnavailableError as error:
                self.note(reachable=False, reason=error.message)
            else:
                metrics.CACHE_BYTES.set(usage.used_bytes)
                metrics.CACHE_BUDGET_BYTES.set(usage.budget_bytes)
                metrics.CACHE_KEPT_FRAMES.set(usage.frames)
                metrics.CACHE_EVICTED.set(usage.evicted)
                self.note(reachable=True)
            await asyncio.sleep(every_s)
