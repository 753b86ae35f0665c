"""The tuner: engines report their windows and receive what all engines together have learned."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence

from tlt_common.aio import Signal
from tlt_common.domain.arm import ArmWindow
from tlt_common.domain.tuner import PoolKey, Posterior
from tlt_common.telemetry import metrics
from tlt_common.telemetry.optional import optional
from tlt_tuner.config import TunerConfig
from tlt_tuner.pools import PoolName, Pools, name_of
from tlt_tuner.regret import regret_tokens


class Tuner:
    """
    Pools in memory; `persistence` saves and restores them.

    Without persistence, engines continue with their local knowledge after a restart of the tuner and refill the pools
    within seconds.
    """

    def __init__(self, config: TunerConfig) -> None:
        self._config = config
        self._pools = Pools()
        self._changed = Signal()

    def report(self, key: PoolKey, windows: Sequence[ArmWindow]) -> None:
        """
        Pool an engine's windows.

        Raises:
            InvalidRequestError: A window is invalid.
        """
        if self._pools.add(key, windows):
            self._changed.set()
            with optional("regret"):
                self._count_regret(key, windows)
        for window in windows:
            metrics.ARM_ROUNDS.labels(arm=window.arm, group=str(window.group)).inc(window.rounds)
            metrics.ARM_REWARD.labels(arm=window.arm, group=str(window.group)).set(window.median_reward)

    def restore(self, name: PoolName, posterior: Posterior) -> None:
        """Restore what an earlier process learned for a pool."""
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
        """Yield the posterior of a pool, if there is one, and its changes, at most once per `push_interval_s`."""
        shown: Posterior | None = None
        while True:
            seen = self._changed.count
            posterior = self._pools.posterior(name)
            if posterior is not None and posterior != shown:
                shown = posterior
                yield posterior
                await asyncio.sleep(self._config.push_interval_s)
            await self._changed.beyond(seen)
