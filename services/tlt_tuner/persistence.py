"""Saves the tuner's pools to a store and restores them after a restart."""

import asyncio
from collections.abc import Mapping
from typing import Never, Protocol

from tlt_common.domain.tuner import Posterior
from tlt_common.errors import UnavailableError
from tlt_common.telemetry import metrics
from tlt_common.telemetry.log import get_logger
from tlt_tuner.pools import PoolName
from tlt_tuner.tuner import Tuner

log = get_logger(__name__)

LAST_S = 2.0
"""Deadline, in seconds, of the final save at shutdown."""


class PoolStore(Protocol):
    """Persistent store of pools. Every call raises UnavailableError while the store is unreachable."""

    async def load(self) -> Mapping[PoolName, Posterior]:
        """Return all pools."""
        ...

    async def save(self, pools: Mapping[PoolName, Posterior]) -> None:
        """Save the given pools."""
        ...

    async def ping(self) -> None:
        """Check that pools can be saved."""
        ...

    async def remove(self, names: tuple[PoolName, ...]) -> None:
        """Delete the given pools."""
        ...


class PoolPersistence:
    """
    Restore pools once the store is reachable, then save those that change.

    The tuner serves in the meantime, and continues in memory while the store is unreachable.
    """

    def __init__(self, tuner: Tuner, store: PoolStore, *, every_s: float) -> None:
        self._tuner = tuner
        self._store = store
        self._every_s = every_s
        self._kept: dict[PoolName, Posterior] | None = None
        """Contents of the store; None if it was not loaded yet, so that it must not be overwritten."""
        self._is_up: bool | None = None
        self._turn = asyncio.Lock()

    async def run(self) -> Never:
        """Run until cancelled; save the latest changes before returning."""
        try:
            while True:
                # Shielded: the Redis client swallows about one cancellation in twenty, and this loop would never end.
                await asyncio.shield(self.step())
                await asyncio.sleep(self._every_s)
        finally:
            async with asyncio.timeout(LAST_S):
                await asyncio.shield(self.step())

    async def step(self) -> None:
        """Restore or save, if the store is reachable."""
        async with self._turn:
            try:
                await self._store.ping()
                if self._kept is None:
                    self._kept = self._restored(await self._store.load())
                await self._write(self._kept)
            except UnavailableError as error:
                if self._kept is not None:
                    self._kept = {}  # the store may restart empty: save everything again
                self._is_now(up=False, error=error.message)
            else:
                self._is_now(up=True)

    def _restored(self, pools: Mapping[PoolName, Posterior]) -> dict[PoolName, Posterior]:
        for name, posterior in pools.items():
            self._tuner.restore(name, posterior)
        log.info("pools_restored", count=len(pools))
        return dict(pools)

    async def _write(self, kept: dict[PoolName, Posterior]) -> None:
        known = self._tuner.known()
        if changed := {name: posterior for name, posterior in known.items() if kept.get(name) != posterior}:
            await self._store.save(changed)
            kept.update(changed)
        if removed := tuple(kept.keys() - known.keys()):
            await self._store.remove(removed)
            for name in removed:
                del kept[name]

    def _is_now(self, *, up: bool, error: str = "") -> None:
        metrics.TUNER_STORE_UP.set(up)
        if up != self._is_up:
            if up:
                log.info("store_up")
            else:
                log.warning("store_down", error=error, meanwhile="pools are kept in memory")
        self._is_up = up
