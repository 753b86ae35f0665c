"""The tuner: engines report their windows and receive the fleet's pooled statistics."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence

from tlt_common.aio import Signal
from tlt_common.domain.arm import ArmWindow
from tlt_common.domain.tuner import PoolKey, Posterior
from tlt_common.telemetry import metrics
from tlt_common.telemetry.optional import optional
from tlt_tuner.pools import PoolName, Pools, name_of
from tlt_tuner.regret import regret_tokens

PUSH_INTERVAL_S = 1.0
"""Minimum seconds between updates sent to an engine: dozens of its rounds, or hundreds."""
MAX_SHOWN = 1024
"""Pairs of arm and batch-size group that metrics show; an engine has some dozens."""


class Tuner:
    """
    Pools in memory; `persistence` saves and restores them.

    Without persistence, engines continue with their local knowledge after a restart of the tuner and refill the pools
    within seconds.
    """

    def __init__(self) -> None:
        self._pools = Pools()
        self._shown: set[tuple[str, int]] = set()
        self._changed = Signal()

    def report(self, key: PoolKey, windows: Sequence[ArmWindow]) -> None:
        """
        Pool an engine's windows.

        Raises:
            InvalidRequestError: A window is invalid.
        """
        changed = self._pools.add(key, windows)
        shown = [window for window in windows if self._is_shown(window)]
        if changed:
            self._changed.set()
            with optional("regret"):
                self._count_regret(key, shown)
        for window in shown:
            metrics.ARM_ROUNDS.labels(arm=window.arm, group=str(window.group)).inc(window.rounds)
            metrics.ARM_REWARD.labels(arm=window.arm, group=str(window.group)).set(window.median_reward)

    def _is_shown(self, window: ArmWindow) -> bool:
        """Whether metrics include an arm and a group. Engines choose their names, and series are never deleted."""
        cell = (window.arm, window.group)
        if cell in self._shown:
            return True
        if not window.rounds or len(self._shown) >= MAX_SHOWN:
            return False
        self._shown.add(cell)
        return True

    def restore(self, name: PoolName, posterior: Posterior) -> None:
        """Restore an earlier process's pool."""
        self._pools.restore(name, posterior)
        self._changed.set()

    def known(self) -> Mapping[PoolName, Posterior]:
        """Return the posterior of every pool."""
        return self._pools.known()

    def _count_regret(self, key: PoolKey, windows: Sequence[ArmWindow]) -> None:
        known = self._pools.posterior(name_of(key))
        counted = [window for window in windows if window.rounds]
        if known is None or known.drafter_version != key.drafter_version:
            return
        for window in counted:
            metrics.ARM_TOKENS.labels(group=str(window.group)).inc(window.produced_tokens)
        for group, tokens in regret_tokens(known, counted).items():
            metrics.REGRET_TOKENS.labels(group=str(group)).inc(tokens)

    async def watch(self, name: PoolName) -> AsyncIterator[Posterior]:
        """Yield the posterior of a pool, if there is one, and its changes, at most once per `PUSH_INTERVAL_S`."""
        shown: Posterior | None = None
        while True:
            seen = self._changed.count
            posterior = self._pools.posterior(name)
            if posterior is not None and posterior != shown:
                shown = posterior
                yield posterior
                await asyncio.sleep(PUSH_INTERVAL_S)
            await self._changed.beyond(seen)
