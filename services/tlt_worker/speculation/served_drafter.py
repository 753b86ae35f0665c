"""The drafter loaded in the engine. Loads newer ones."""

import asyncio
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Never

from tlt_common.aio import backoff
from tlt_common.changes import Changes
from tlt_common.domain.fleet import DrafterWish
from tlt_common.domain.ids import DrafterVersion
from tlt_common.errors import StaleVersionError, UnavailableError, WeightsError, WeightsUnreadableError
from tlt_common.telemetry import metrics
from tlt_common.telemetry.log import get_logger
from tlt_worker.activity import Activity
from tlt_worker.engine.base import Engine
from tlt_worker.weights.source import WeightSources

log = get_logger(__name__)

RETRY_S = 1.0
"""Seconds after which a load that failed is repeated; doubles with each failure."""
MAX_RETRY_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Refused:
    """A refused drafter and a fingerprint of its files."""

    wish: DrafterWish
    fingerprint: str


class ServedDrafter:
    """
    Loads drafters, the newest version only. If a load fails, the previous drafter stays, and the load is retried with
    backoff until it succeeds or a newer drafter is requested: the cause may be unavailable storage or a full disk. A
    drafter that was read and does not fit is not read again until its files change.
    """

    def __init__(
        self,
        engine: Engine,
        changes: Changes,
        activity: Activity,
        sources: WeightSources,
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
        self._refused: _Refused | None = None
        self._problem = ""
        self.pause_s = 0.0
        """Seconds for which the engine paused when it last loaded a drafter."""
        self._wished = asyncio.Event()

    @property
    def version(self) -> DrafterVersion:
        """Version of the loaded drafter; 0 means none."""
        return self._version

    @property
    def problem(self) -> str:
        """Why the requested drafter is not loaded; empty if it is, or has not been tried yet."""
        return self._problem

    def wish(self, wish: DrafterWish) -> None:
        """
        Request a drafter without waiting.

        Only the newest request counts; versions not above the loaded one are ignored.
        """
        if wish.version > self._version and (self._wish is None or wish.version >= self._wish.version):
            self._wish = wish
            self._wished.set()

    def retry(self) -> None:
        """Try to load the requested drafter at once, since what prevented it may be over."""
        if self._wish is not None:
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
        """Load requested drafters until cancelled. No failure ends it."""
        delays, retry_s = backoff(RETRY_S, MAX_RETRY_S), None
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(retry_s):
                    await self._wished.wait()  # a newer drafter, or the same one from a new stream, is tried at once
            self._wished.clear()
            wish = self._wish
            if wish is None or await self._attempt(wish):
                delays, retry_s = backoff(RETRY_S, MAX_RETRY_S), None
            else:
                retry_s = next(delays)

    async def _attempt(self, wish: DrafterWish) -> bool:
        """Load a requested drafter; return whether the request is settled."""
        try:
            if await self._is_still_refused(wish):
                return False
            await self.apply(wish)
        except StaleVersionError:
            log.debug("drafter_wish_overtaken", drafter_version=wish.version)
        except Exception as error:  # noqa: BLE001 - a drafter only makes rollouts faster; they go on without it
            self._problem = f"drafter v{wish.version} is not loaded: {error}"
            log.warning("drafter_not_loaded", drafter_version=wish.version, kept=self._version, error=str(error))
            return False
        if self._wish == wish:
            self._wish = None
        return True

    async def _is_still_refused(self, wish: DrafterWish) -> bool:
        """Return whether the drafter was refused and its files are unchanged, according to a listing."""
        if self._refused is None or self._refused.wish != wish:
            return False
        try:
            return await asyncio.to_thread(self._sources.fingerprint, wish.uri) == self._refused.fingerprint
        except WeightsError:  # not accepted, or not readable now: nothing says that it changed
            return True

    async def _load(self, wish: DrafterWish) -> float:
        if wish.version == self._version:
            return 0.0
        if wish.version < self._version:
            raise StaleVersionError(
                f"drafter_version is {wish.version}; accepted: above {self._version}, the loaded version",
                field="drafter_version",
            )
        if self._activity.released:
            raise UnavailableError("the RL trainer has this worker's devices")
        outcome, fingerprint = "failed", ""
        try:
            fingerprint = await asyncio.to_thread(self._sources.fingerprint, wish.uri)
            with tempfile.TemporaryDirectory(prefix="tlt-drafter-") as scratch:
                directory = await asyncio.to_thread(self._sources.located, wish.uri, Path(scratch) / "copy")
                with self._activity.swap():
                    pause_s = await self._engine.load_drafter(directory, wish.version)
            outcome = "loaded"
        except WeightsUnreadableError:
            raise
        except WeightsError:
            outcome, self._refused = "refused", _Refused(wish=wish, fingerprint=fingerprint)
            raise
        except OSError as error:
            raise UnavailableError(f"{tempfile.gettempdir()} cannot hold a copy of the drafter: {error}") from error
        finally:
            metrics.DRAFTER_LOADS.labels(outcome=outcome).inc()
        self._version, self._problem, self.pause_s = wish.version, "", pause_s
        metrics.WORKER_DRAFTER_VERSION.set(wish.version)
        metrics.WORKER_PAUSE_SECONDS.labels(cause="drafter").observe(pause_s)
        log.info("drafter_loaded", drafter_version=wish.version, pause_s=round(pause_s, 4))
        return pause_s
