"""Keeps what the tuner has learned where it outlives the tuner."""

import asyncio
from collections.abc import Mapping
from typing import Never, Protocol

from tlt_common.domain.tuner import Posterior
from tlt_common.errors import UnavailableError
from tlt_common.telemetry import metrics
from tlt_common.telemetry.log import get_logger
from tlt_tuner.pool import PoolName
from tlt_tuner.tuner import Tuner

log = get_logger(__name__)

LAST_S = 2.0
"""Longest last writing when the tuner ends."""


class Store(Protocol):
    """Where pools are kept. Every call raises UnavailableError while it cannot be reached."""

    async def load(self) -> Mapping[PoolName, Posterior]:
        """Read all pools."""
        ...

    async def save(self, pools: Mapping[PoolName, Posterior]) -> None:
        """Write these."""
        ...

    async def remove(self, names: tuple[PoolName, ...]) -> None:
        """Forget these."""
        ...


class Keeper:
    """
    Restores pools once the store is there, then writes those that changed.

    The tuner serves meanwhile, and goes on in memory while the store is away.
    """

    def __init__(self, tuner: Tuner, store: Store, *, every_s: float) -> None:
        self._tuner = tuner
        self._store = store
        self._every_s = every_s
        self._kept: dict[PoolName, Posterior] | None = None
        """What the store has; None: it was not read yet, and nothing may be written over it."""
        self._is_up: bool | None = None
        self._turn = asyncio.Lock()

    async def run(self) -> Never:
        """Live until cancelled; what changed last is written at the end."""
        try:
            while True:
                # Shielded: once in twenty times Redis' client swallows a cancellation, and this would never end.
                await asyncio.shield(self.step())
                await asyncio.sleep(self._every_s)
        finally:
            async with asyncio.timeout(LAST_S):
                await asyncio.shield(self.step())

    async def step(self) -> None:
        """Restore or write, if the store is there."""
        async with self._turn:
            try:
                if self._kept is None:
                    self._kept = self._restored(await self._store.load())
                await self._write(self._kept)
            except UnavailableError as error:
                if self._kept is not None:
                    self._kept = {}  # it may come back empty: everything is written again
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
        if gone := tuple(kept.keys() - known.keys()):
            await self._store.remove(gone)
            for name in gone:
                del kept[name]

    def _is_now(self, *, up: bool, error: str = "") -> None:
        metrics.TUNER_STORE_UP.set(up)
        if up != self._is_up:
            if up:
                log.info("store_up")
            else:
                log.warning("store_down", error=error, meanwhile="pools are kept in memory")
        self._is_up = up
