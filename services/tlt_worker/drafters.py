"""Which drafter the engine has, and the newer one it should get."""

import asyncio
import tempfile
from pathlib import Path
from typing import Never

from tlt_common.changes import Changes
from tlt_common.domain.fleet import DrafterWish
from tlt_common.domain.ids import DrafterVersion
from tlt_common.errors import StaleVersionError, WeightsError
from tlt_common.telemetry import metrics
from tlt_common.telemetry.log import get_logger
from tlt_worker.activity import Activity
from tlt_worker.engine.base import Engine
from tlt_worker.source import located

log = get_logger(__name__)


class Drafters:
    """Loads drafters, newest version only. What fails to load leaves the one before in place."""

    def __init__(
        self, engine: Engine, changes: Changes, activity: Activity, *, loaded: DrafterVersion = DrafterVersion(0)
    ) -> None:
        self._engine = engine
        self._changes = changes
        self._activity = activity
        self._version = loaded
        metrics.WORKER_DRAFTER_VERSION.set(loaded)
        self._wish: DrafterWish | None = None
        self._wished = asyncio.Event()

    @property
    def version(self) -> DrafterVersion:
        """Of the loaded drafter; 0: none."""
        return self._version

    def wish(self, wish: DrafterWish) -> None:
        """Ask for a drafter without waiting. Only the newest wish counts; one not above the loaded version is done."""
        if wish.version > max(self._version, self._wish.version if self._wish else 0):
            self._wish = wish
            self._wished.set()

    async def apply(self, wish: DrafterWish) -> float:
        """
        Load a drafter; return the pause in seconds. Repeating it is harmless.

        Raises:
            StaleVersionError: A newer one is loaded.
            WeightsError: It is unreadable or does not fit; the loaded one stays.
        """
        return await self._changes.do(lambda: self._load(wish))

    async def run(self) -> Never:
        """Fulfil wishes until cancelled. A wish that fails is dropped: its maker sends it again when it matters."""
        while True:
            await self._wished.wait()
            self._wished.clear()
            wish, self._wish = self._wish, None
            if wish is None:
                continue
            try:
                await self.apply(wish)
            except StaleVersionError:
                log.debug("drafter_wish_overtaken", drafter_version=wish.version)
            except WeightsError as error:
                log.warning("drafter_refused", drafter_version=wish.version, kept=self._version, error=error.message)

    async def _load(self, wish: DrafterWish) -> float:
        if wish.version == self._version:
            return 0.0
        if wish.version < self._version:
            raise StaleVersionError(
                f"drafter_version is {wish.version}; accepted: above {self._version}, which is loaded",
                field="drafter_version",
            )
        try:
            with tempfile.TemporaryDirectory(prefix="tlt-drafter-") as scratch:
                directory = await asyncio.to_thread(located, wish.uri, Path(scratch) / "copy")
                with self._activity.swap():
                    pause_s = await self._engine.load_drafter(directory, wish.version)
        except WeightsError:
            metrics.DRAFTER_LOADS.labels(outcome="refused").inc()
            raise
        self._version = wish.version
        metrics.DRAFTER_LOADS.labels(outcome="loaded").inc()
        metrics.WORKER_DRAFTER_VERSION.set(wish.version)
        metrics.WORKER_PAUSE_SECONDS.labels(cause="drafter").observe(pause_s)
        log.info("drafter_loaded", drafter_version=wish.version, pause_s=round(pause_s, 4))
        return pause_s
