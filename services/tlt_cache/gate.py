"""Whether engines should capture: not while there is nowhere to put what they would copy."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Never

from tlt_cache.base import FrameStore
from tlt_common.aio import Signal
from tlt_common.domain.hidden import CapturePolicy
from tlt_common.errors import CacheUnavailableError
from tlt_common.telemetry import metrics
from tlt_common.telemetry.log import get_logger

log = get_logger(__name__)


class CaptureGate:
    """The capture policy as it holds now. Closed until the store was seen."""

    def __init__(self, policy: CapturePolicy) -> None:
        self._policy = policy
        self._reachable: bool | None = None
        self._changed = Signal()

    @property
    def policy(self) -> CapturePolicy:
        """What to capture now."""
        return replace(self._policy, enabled=self._policy.enabled and bool(self._reachable))

    async def watch(self) -> AsyncIterator[CapturePolicy]:
        """Yield the policy, and again whenever it changed. A slow reader misses what was overtaken."""
        while True:
            seen, told = self._changed.count, self.policy
            yield told
            while self.policy == told:
                seen = await self._changed.beyond(seen)

    def note(self, *, reachable: bool, reason: str = "") -> None:
        """Open or close. Logged once per change."""
        if reachable == self._reachable:
            return
        self._reachable = reachable
        metrics.CACHE_STORE_UP.set(reachable)
        if reachable:
            log.info("store_reachable")
        else:
            log.warning("store_unreachable", reason=reason, effect="nothing is captured until it is back")
        self._changed.set()

    async def probe(self, store: FrameStore, every_s: float) -> Never:
        """Ask the store whether it is there, until cancelled."""
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
