"""The drafter loaded in the engine, and the loading of newer ones."""

import asyncio
import random
import tempfile
from pathlib import Path
from typing import Never

from tlt_common.changes import Changes
from tlt_common.domain.fleet import DrafterWish
from tlt_common.domain.ids import DrafterVersion
from tlt_common.errors import StaleVersionError, UnavailableError, WeightsError
from tlt_common.telemetry import metrics
from tlt_common.telemetry.log import get_logger
from tlt_worker.engine.base import Engine
from tlt_worker.lending.activity import Activity
from tlt_worker.weights_source import Sources

log = get_logger(__name__)

RETRY_S = 1.0
"""Seconds after which a load that failed is repeated; doubles with each failure."""
MAX_RETRY_S = 60.0


class ServedDrafter:
    """
    Loads drafters, the newest version only. If a load fails, the previous drafter stays, and the load is repeated with
    backoff until it succeeds or a newer drafter is requested: the cause may be a storage that is away, or a full disk.
    """

    def __init__(
        self,
        engine: Engine,
        changes: Changes,
        activity: Activity,
        sources: Sources,
        *,
        loaded: DrafterVersion = DrafterVersion(0),
    ) -> None:
        self._engine = engine
        self._changes = changes
        self._activity = activity
        self._sources = sources
        self._version = loaded
        metrics.WORKER_DRAFTER_VERSION.set(loaded)
        self._wish: DrafterWish | None = None
        self._wished = asyncio.Event()

    @property
    def version(self) -> DrafterVersion:
        """Version of the loaded drafter; 0 means none."""
        return self._version

    def wish(self, wish: DrafterWish) -> None:
        """
        Request a drafter without waiting.

        Only the newest request counts; versions not above the loaded one are ignored.
        """
        if wish.version > self._version and (self._wish is None or wish.version >= self._wish.version):
            self._wish = wish
            self._wished.set()

    async def apply(self, wish: DrafterWish) -> float:
        """
        Load a drafter; return the pause in seconds. Idempotent.

        Raises:
            StaleVersionError: A newer version is loaded.
            WeightsError: The drafter is unreadable or does not fit; the loaded one stays.
            UnavailableError: There is no space for a copy of the drafter; the loaded one stays.
        """
        return await self._changes.do(lambda: self._load(wish))

    async def run(self) -> Never:
        """Load requested drafters until cancelled. Nothing that goes wrong ends it."""
        failures = 0
        while True:
            if not failures:
                await self._wished.wait()
            self._wished.clear()
            wish = self._wish
            if wish is None or await self._attempt(wish):
                failures = 0
                continue
            retry_s = min(RETRY_S * 2**failures, MAX_RETRY_S) * random.uniform(0.75, 1.25)
            failures += 1
            try:
                async with asyncio.timeout(retry_s):
                    await self._wished.wait()  # a newer drafter, or the same one from a new stream, is tried at once
            except TimeoutError:
                continue

    async def _attempt(self, wish: DrafterWish) -> bool:
        """Load a requested drafter; return whether the request is settled."""
        try:
            await self.apply(wish)
        except StaleVersionError:
            log.debug("drafter_wish_overtaken", drafter_version=wish.version)
        except Exception as error:  # noqa: BLE001 - a drafter only makes rollouts faster; they go on without it
            log.warning("drafter_not_loaded", drafter_version=wish.version, kept=self._version, error=str(error))
            return False
        if self._wish == wish:
            self._wish = None
        return True

    async def _load(self, wish: DrafterWish) -> float:
        if wish.version == self._version:
            return 0.0
        if wish.version < self._version:
            raise StaleVersionError(
                f"drafter_version is {wish.version}; accepted: above {self._version}, the loaded version",
                field="drafter_version",
            )
        outcome = "failed"
        try:
            with tempfile.TemporaryDirectory(prefix="tlt-drafter-") as scratch:
                directory = await asyncio.to_thread(self._sources.located, wish.uri, Path(scratch) / "copy")
                with self._activity.swap():
                    pause_s = await self._engine.load_drafter(directory, wish.version)
            outcome = "loaded"
        except WeightsError:
            outcome = "refused"
            raise
        except OSError as error:
            raise UnavailableError(f"{tempfile.gettempdir()} cannot hold a copy of the drafter: {error}") from error
        finally:
            metrics.DRAFTER_LOADS.labels(outcome=outcome).inc()
        self._version = wish.version
        metrics.WORKER_DRAFTER_VERSION.set(wish.version)
        metrics.WORKER_PAUSE_SECONDS.labels(cause="drafter").observe(pause_s)
        log.info("drafter_loaded", drafter_version=wish.version, pause_s=round(pause_s, 4))
        return pause_s
