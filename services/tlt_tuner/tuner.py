"""The tuner: engines report what they saw, and are told what all of them saw."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence

from tlt_common.aio import Signal
from tlt_common.domain.strategy import ArmWindow
from tlt_common.domain.tuner import PoolKey, Posterior
from tlt_common.telemetry import metrics
from tlt_tuner.config import TunerConfig
from tlt_tuner.pool import PoolName, Pools, name_of
from tlt_tuner.regret import regret_tokens


class Tuner:
    """
    Pools in memory; `keeper` keeps them over restarts.

    Without that engines go on with what they know after a restart, and fill the pools again within seconds.
    """

    def __init__(self, config: TunerConfig) -> None:
        self._config = config
        self._pools = Pools()
        self._changed = Signal()

    def report(self, key: PoolKey, windows: Sequence[ArmWindow]) -> None:
        """
        Pool what an engine saw.

        Raises:
            InvalidRequestError: No engine can have seen it.
        """
        if self._pools.add(key, windows):
            self._changed.set()
            self._count_regret(key, windows)
        for window in windows:
            metrics.ARM_ROUNDS.labels(arm=window.arm, group=str(window.group)).inc(window.rounds)
            metrics.ARM_REWARD.labels(arm=window.arm, group=str(window.group)).set(window.median_reward)

    def restore(self, name: PoolName, posterior: Posterior) -> None:
        """Take over what an earlier process knew."""
        self._pools.restore(name, posterior)
        self._changed.set()

    def known(self) -> Mapping[PoolName, Posterior]:
        """What is known in every pool."""
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
        """What is known in a pool: at once if anything is, and again when it changed, not faster than configured."""
        shown: Posterior | None = None
        while True:
            seen = self._changed.count
            posterior = self._pools.posterior(name)
            if posterior is not None and posterior != shown:
                shown = posterior
                yield posterior
                await asyncio.sleep(self._config.push_interval_s)
            await self._changed.beyond(seen)
