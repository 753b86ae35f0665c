"""The policy's weights: staged without disturbing anyone, then switched to, all or nothing."""

import asyncio
import shutil
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path

from tlt_common.changes import Changes
from tlt_common.checkpoint import Spool
from tlt_common.domain.ids import PolicyVersion
from tlt_common.domain.weights import TensorChunk, WeightsUpdate
from tlt_common.errors import InvalidRequestError, StaleVersionError
from tlt_common.telemetry import metrics
from tlt_common.telemetry.log import get_logger
from tlt_worker.activity import Activity
from tlt_worker.engine.base import Engine
from tlt_worker.source import located

log = get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Weights:
    version: PolicyVersion
    directory: Path
    is_ours: bool
    """A copy, to be removed once it is replaced; else it belongs to somebody else."""

    def remove(self) -> None:
        if self.is_ours:
            shutil.rmtree(self.directory, ignore_errors=True)


class Weights:
    """Which weights are served and which are kept ready. `make_way` is called before each switch."""

    def __init__(
        self,
        engine: Engine,
        changes: Changes,
        activity: Activity,
        make_way: Callable[[], None],
        *,
        model: Path,
        spool_dir: Path,
    ) -> None:
        self._engine = engine
        self._changes = changes
        self._activity = activity
        self._make_way = make_way
        self._spool_dir = spool_dir
        self._served = _Weights(version=PolicyVersion(0), directory=model, is_ours=False)
        self._staged: _Weights | None = None
        self._staging = asyncio.Lock()

    @property
    def version(self) -> PolicyVersion:
        return self._served.version

    @property
    def directory(self) -> Path:
        """Where the served weights are; the trainer reads embedding and head there."""
        return self._served.directory

    async def stage(self, update: WeightsUpdate, tensors: AsyncIterator[TensorChunk]) -> int:
        """
        Fetch and check weights; return their bytes. What was staged before is forgotten.

        Raises:
            StaleVersionError: The version is not above the one served.
            WeightsError: They do not fit the model, or cannot be read. What is served stays.
        """
        self._require_newer(update.version)
        async with self._staging:
            self._forget()
            weights = await self._received(update, tensors)
            try:
                staged_bytes = await self._engine.check_weights(weights.directory)
                self._require_newer(update.version)  # a commit may have passed by meanwhile
            except BaseException:
                weights.remove()
                raise
            self._staged = weights
        log.info("weights_staged", policy_version=update.version, staged_bytes=staged_bytes, copied=weights.is_ours)
        return staged_bytes

    async def commit(self, version: PolicyVersion) -> float:
        """
        Switch to the staged weights with requests in flight; return the pause in seconds. Repeating it is harmless.

        Raises:
            StaleVersionError: Another version, or none, is staged.
            WeightsError: The engine refused them after all; what was served is still served.
        """
        if version == self.version:
            return 0.0
        return await self._changes.do(lambda: self._switch(version))

    async def discard(self, version: PolicyVersion) -> None:
        """Forget that version if it is staged."""
        async with self._staging:
            if self._staged is not None and self._staged.version == version:
                self._forget()

    def close(self) -> None:
        """Remove every file of ours."""
        self._forget()
        self._served.remove()

    async def _received(self, update: WeightsUpdate, tensors: AsyncIterator[TensorChunk]) -> _Weights:
        if update.uri is None:
            directory = await _spooled(await asyncio.to_thread(Spool, self._spool_dir), tensors)
            return _Weights(version=update.version, directory=directory, is_ours=True)
        async for _ in tensors:
            raise InvalidRequestError(
                "tensors follow a header that names a source; accepted: one of both", field="source"
            )
        copy = self._spool_dir / f"copy-{update.version}"
        directory = await asyncio.to_thread(located, update.uri, copy)
        return _Weights(version=update.version, directory=directory, is_ours=directory == copy)

    async def _switch(self, version: PolicyVersion) -> float:
        if version == self.version:  # the same commit, repeated while the first one ran
            return 0.0
        staged = self._staged
        if staged is None or staged.version != version:
            held = "none" if staged is None else str(staged.version)
            raise StaleVersionError(
                f"policy_version is {version}, staged is {held}; stage it first", field="policy_version"
            )
        self._staged = None
        self._make_way()
        try:
            with self._activity.update():
                pause_s = await self._engine.load_weights(staged.directory, version)
        except BaseException:
            staged.remove()
            raise
        self._served.remove()
        self._served = staged
        metrics.WORKER_POLICY_VERSION.set(version)
        metrics.WORKER_PAUSE_SECONDS.labels(cause="weights").observe(pause_s)
        log.info("weights_switched", policy_version=version, pause_s=round(pause_s, 4))
        return pause_s

    def _require_newer(self, version: PolicyVersion) -> None:
        if version <= self.version:
            raise StaleVersionError(
                f"policy_version is {version}; accepted: above {self.version}, which is served", field="policy_version"
            )

    def _forget(self) -> None:
        if self._staged is not None:
            self._staged.remove()
            self._staged = None


async def _spooled(spool: Spool, tensors: AsyncIterator[TensorChunk]) -> Path:
    try:
        async for chunk in tensors:
            await asyncio.to_thread(spool.write, chunk)
        await asyncio.to_thread(spool.finish)
    except BaseException:
        spool.remove()
        raise
    return spool.directory
