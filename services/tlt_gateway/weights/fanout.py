"""Distribution of new weights to all workers, and to workers that join later."""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Never

from tlt_common.changes import Changes
from tlt_common.disk import on_disk
from tlt_common.domain.fleet import WorkerInfo
from tlt_common.domain.ids import PolicyVersion
from tlt_common.domain.weights import ReleaseId, TensorChunk, UpdateResult, WeightsUpdate
from tlt_common.errors import InvalidRequestError, StaleVersionError, TltError, WeightsError
from tlt_common.telemetry import metrics
from tlt_common.telemetry.log import get_logger
from tlt_common.weights.digest import contradict
from tlt_common.weights.spool import Spool
from tlt_common.weights.update_key import generated_key
from tlt_gateway.weights.deltas import folded, require_base
from tlt_gateway.weights.joins import Joins
from tlt_gateway.weights.release import FIRST, Release
from tlt_gateway.weights.release_store import ReleaseStore
from tlt_gateway.weights.trainer_stream import received, require_alone
from tlt_gateway.weights.two_phases import install
from tlt_gateway.workers.pooled_worker import PooledWorker
from tlt_gateway.workers.worker_pool import WorkerPool

log = get_logger(__name__)

REFRESH_S = 2.0
"""Seconds to wait for what the workers serve before an update, which may have been made through another gateway."""


class WeightsFanout:
    """
    Keeps all workers that accept requests at the same release.

    That release is the greatest that any worker serves. Gateways therefore agree without contacting each other or the
    coordinator, and a gateway that restarts finds the served release. Updates through one gateway are applied one after
    the other; workers join concurrently, and an update does not wait for them.
    """

    def __init__(
        self,
        pool: WorkerPool,
        store: ReleaseStore,
        *,
        straggler_s: float,
        over: Callable[[PolicyVersion, float, int | None], object] = lambda *_: None,
    ) -> None:
        """
        Args:
            pool: The workers.
            store: Storage of releases.
            straggler_s: Seconds to wait for the remaining workers.
            over: Called after every update with its version, the loop time at which it began, and the number of workers
                that switched, or None if it failed.
        """
        self._pool = pool
        self._store = store
        self._over = over
        self._straggler_s = straggler_s
        self._joins = Joins(pool)
        self._release = FIRST
        self._whole = FIRST
        """The served release, or the one that the served adapter is merged into."""
        self._replaced: tuple[Release, ...] = ()
        """Kept on disk for one more update: processes of a worker may still read its directory."""
        self._installing: dict[ReleaseId, asyncio.Future[int]] = {}
        self._changes = Changes()
        self._to_keep: asyncio.Queue[Release] = asyncio.Queue()
        self._recovered = asyncio.Event()
        """Set once it is known what an earlier process served; until then no worker is admitted and none updated."""

    async def run(self) -> Never:
        """Recover the release that an earlier process served, then run until cancelled."""
        for recovered in await on_disk(self._store.recover):
            log.info("release_recovered", policy_version=recovered.id.version, uri=recovered.uri)
            self._serve(recovered)
        self._recovered.set()
        try:
            async with asyncio.TaskGroup() as parts:
                parts.create_task(self._keep(), name="keep releases")
                await self._changes.run()
        finally:
            self._make_room()
            self._release.release()
            self._whole.release()

    async def update(self, update: WeightsUpdate, tensors: AsyncIterator[TensorChunk]) -> UpdateResult:
        """
        Install weights on all workers that can take them. Once all tensors have been received, cancelling the call has
        no effect. Repeating an update has none either, even through another gateway.

        Raises:
            InvalidRequestError: The version is not above the served one, which has other weights, or the stream is
                inconsistent.
            StaleVersionError: Another update of the same or a higher version won.
            WeightsError: Tensors are malformed, or a worker, named in the message, refused them. The previous weights
                stay in use.
            UnavailableError: No worker is available.
        """
        started_s = asyncio.get_running_loop().time()
        release = await self._identified(update)
        workers: int | None = None
        try:
            workers = await self._update(release, update, tensors)
        finally:
            metrics.GATEWAY_UPDATES.labels(outcome="failed" if workers is None else "done").inc()
            self._over(release.version, started_s, workers)
        elapsed_s = asyncio.get_running_loop().time() - started_s
        metrics.GATEWAY_UPDATE_SECONDS.observe(elapsed_s)
        log.info("weights_updated", policy_version=release.version, workers=workers, elapsed_s=round(elapsed_s, 3))
        served = self._release.id
        digest = served.digest if served == release else ""
        return UpdateResult(version=release.version, workers=workers, elapsed_s=elapsed_s, digest=digest)

    async def _identified(self, update: WeightsUpdate) -> ReleaseId:
        """Return the release of an update. One without a version gets the next, or its own if it is repeated."""
        key = update.key or generated_key()
        if update.version is not None:
            return ReleaseId(version=update.version, key=key)
        await self.refresh()
        known = (self._release.id, *self._installing)
        latest = max(release.version for release in known)
        return next(
            (release for release in known if release.key == key), ReleaseId(version=PolicyVersion(latest + 1), key=key)
        )

    @property
    def adapter_name(self) -> str:
        """Name of the served adapter; empty if it has none, or whole weights are served."""
        return self._release.adapter_name

    async def refresh(self) -> None:
        """Refresh the served release, which may have been published through another gateway."""
        await self._recovered.wait()
        await self._pool.refresh(REFRESH_S)
        for worker in self._pool.workers:
            if worker.answers and worker.info is not None:
                self._adopt(worker.info)

    async def require_base(self, base: PolicyVersion) -> None:
        """
        Check that changes are based on the served version, before they are received.

        Raises:
            StaleVersionError: They are based on another version; the message names both.
        """
        await self.refresh()
        require_base(base, self._release)

    async def admit(self, worker: PooledWorker) -> None:
        """Bring a reachable worker to the served release, then let it accept requests."""
        await self._recovered.wait()
        if worker.info is None or worker.info.served.id in self._installing:
            return  # it has committed; the update goes on
        self._adopt(worker.info)
        if await self._joins.join(worker, self._release, self._whole) is None:
            self._forget_refused()

    async def _update(self, release: ReleaseId, update: WeightsUpdate, tensors: AsyncIterator[TensorChunk]) -> int:
        if (running := self._installing.get(release)) is not None:
            return await asyncio.shield(running)
        await self.refresh()
        if release == self._release.id:
            return self._count(release)
        if release.version < max(1, self._release.id.version):
            raise self._not_newer(release)
        if update.uri is not None:
            await require_alone(update.uri, tensors)
        if update.base is not None:
            if update.adapter_base is not None:
                raise InvalidRequestError(
                    "header has base_version and adapter_base; accepted: one of them", field="header.adapter_base"
                )
            return await self._changed(release, update.base, update.uri, tensors)
        base = None if update.adapter_base is None else self._adapter_base(update.adapter_base)
        if update.uri is not None:
            return await self._from_source(release, update.uri, base)
        self._make_room()  # whoever read them has had a whole update's time; there is room for two releases
        self._store.require_space(update.size_bytes)
        incoming = await self._store.begin()
        if release.version == self._release.id.version:
            return await self._compared(release, incoming, tensors, base, update.adapter_name)
        return await self._streamed(release, incoming, tensors, adapter_base=base, adapter_name=update.adapter_name)

    def _adapter_base(self, digest: str) -> ReleaseId:
        """
        Return the whole weights that an adapter is to be merged into, with the digest that it expects.

        Raises:
            WeightsError: It was trained on others.
        """
        whole = self._whole.id
        if digest and contradict(digest, whole.digest):
            raise WeightsError(
                f"the adapter was trained on weights with digest {digest}; release {whole}, into which it would be "
                f"merged, has {whole.digest}. Publish the whole weights that it belongs to first",
                field="header.adapter_base",
            )
        return replace(whole, digest=digest or whole.digest)

    async def _changed(
        self, release: ReleaseId, version: PolicyVersion, uri: str | None, changes: AsyncIterator[TensorChunk]
    ) -> int:
        """Install the served weights with changes applied. Workers receive, and the store keeps, whole weights."""
        require_base(version, self._release)
        base = self._release.id
        if release.version == base.version:
            raise self._not_newer(release)
        self._make_room()
        async with folded(self._pool, self._store, base, uri, changes) as tensors:
            incoming = await self._store.begin()
            return await self._streamed(release, incoming, tensors, base=base)

    async def _from_source(self, release: ReleaseId, uri: str, adapter_base: ReleaseId | None) -> int:
        if release.version == self._release.id.version:
            if (uri, adapter_base) != (self._release.uri, self._release.adapter_base):
                raise self._not_newer(release)
            return self._count(self._release.id)
        located = Release(id=release, uri=uri, adapter_base=adapter_base)
        return await self._changes.do(lambda: self._install(located))

    async def _compared(
        self,
        release: ReleaseId,
        incoming: Spool,
        tensors: AsyncIterator[TensorChunk],
        adapter_base: ReleaseId | None,
        adapter_name: str,
    ) -> int:
        """Accept an update of the served version under another key if its tensors equal the served ones."""
        try:
            await received(incoming, tensors, is_adapter=adapter_base is not None)
        finally:
            incoming.discard("the version is served already")
        served = self._release
        known = (served.id.digest, served.adapter_base, served.adapter_name)
        if (incoming.digest, adapter_base, adapter_name) != known:
            raise self._not_newer(release)
        return self._count(self._release.id)

    async def _streamed(
        self,
        release: ReleaseId,
        incoming: Spool,
        tensors: AsyncIterator[TensorChunk],
        *,
        base: ReleaseId | None = None,
        adapter_base: ReleaseId | None = None,
        adapter_name: str = "",
    ) -> int:
        """Receive tensors while passing them on to the workers."""
        arriving = Release(
            id=release,
            spool=incoming.locked,
            log=incoming.log,
            shared=self._store.shared,
            base=base,
            adapter_base=adapter_base,
            adapter_name=adapter_name,
        )
        try:
            async with asyncio.TaskGroup() as group:
                installed = group.create_task(self._changes.do(lambda: self._install(arriving, incoming)))
                try:
                    await received(incoming, tensors, is_adapter=adapter_base is not None)
                except BaseException as error:
                    incoming.log.fail(f"the trainer's stream ended: {error}")
                    raise
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from None
        return installed.result()

    async def _install(self, release: Release, incoming: Spool | None = None) -> int:
        """Run both phases; return how many workers switched."""
        done: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._installing[release.id] = done
        try:
            self._require_newer(release.id)
            self._require_base(release.base)
            self._require_whole(release.adapter_base)
            release, committed = await install(self._pool, release, incoming, straggler_s=self._straggler_s)
        except BaseException as error:
            if isinstance(error, TltError):
                done.set_exception(error)
                done.exception()  # retrieved: often nobody waits
            else:
                done.cancel()
            if incoming is not None:
                incoming.discard(f"release {release.id} was not installed")
            release.remove()
            raise
        finally:
            del self._installing[release.id]
        self._serve(release)
        for worker, info in committed.items():
            self._pool.ready(worker, info)
        done.set_result(len(committed))
        self._to_keep.put_nowait(release)
        return len(committed)

    async def _keep(self) -> Never:
        """Make each release recoverable after it is served, so that the trainer does not wait for the disk."""
        while True:
            release = await self._to_keep.get()
            try:
                kept = await on_disk(self._store.keep, release)
            except OSError as error:  # the update is committed; only a restart of this gateway would miss the spool
                log.warning("release_not_recoverable", policy_version=release.id.version, error=str(error))
                continue
            if self._whole.id == kept.id:
                self._whole = kept
            if self._release.id == kept.id:
                self._release = kept
            elif kept.id not in {old.id for old in (self._whole, *self._replaced)}:
                kept.remove()

    def _adopt(self, info: WorkerInfo) -> None:
        """
        Adopt a newer release that a worker serves, published through another gateway or by this one before it
        restarted.
        """
        served = info.served
        if served.id > self._release.id and served.id not in self._installing:
            if served.adapter_base is not None and served.adapter_base != self._whole.id:
                self._serve(Release(id=served.adapter_base))
            self._serve(Release.of(served))

    def _serve(self, release: Release) -> None:
        """Set the fleet's release. Workers at an older one stop accepting requests."""
        self._make_room()
        before = {self._release.id: self._release, self._whole.id: self._whole}
        self._release = release
        if release.adapter_base is None:
            self._whole = release
        self._replaced = tuple(old for known, old in before.items() if known not in {release.id, self._whole.id})
        self._pool.served = release.id
        self._joins.supersede()
        metrics.GATEWAY_POLICY_VERSION.set(release.id.version)
        for worker in self._pool.workers:
            if worker.answers and worker.info is not None and worker.info.served.id < release.id:
                self._pool.behind(worker, worker.info)

    def _forget_refused(self) -> None:
        """Fall back to the workers' own weights if they refuse a release that only an earlier process served."""
        serving = any(worker.info and worker.info.served.id == self._release.id for worker in self._pool.workers)
        if self._release.recovered and not serving:
            log.warning("recovered_release_refused", policy_version=self._release.id.version)
            for refused in (self._release, self._whole):
                refused.remove()
            self._release = self._whole = FIRST
            self._pool.served = FIRST.id

    def _make_room(self) -> None:
        """Delete releases that were replaced."""
        for old in self._replaced:
            old.remove()
        self._replaced = ()

    def _count(self, release: ReleaseId) -> int:
        return sum(
            worker.answers and worker.info is not None and worker.info.served.id == release
            for worker in self._pool.workers
        )

    def _require_newer(self, release: ReleaseId) -> None:
        if release <= self._release.id:
            raise self._not_newer(release)

    def _require_base(self, base: ReleaseId | None) -> None:
        if base is not None and base != self._release.id:
            raise StaleVersionError(
                f"base_version is {base.version}; served by now: {self._release.id}", field="header.base_version"
            )

    def _require_whole(self, base: ReleaseId | None) -> None:
        if base is not None and base != self._whole.id:
            raise StaleVersionError(
                f"the adapter was to be merged into release {base}; served by now: {self._whole.id}",
                field="header.adapter_base",
            )

    def _not_newer(self, release: ReleaseId) -> InvalidRequestError:
        served = self._release.id
        return InvalidRequestError(
            f"policy_version is {release.version}; accepted: above {served.version}, the served version, or the same "
            "weights again",
            field="policy_version",
        )
