"""New weights for all workers: all or none, in two phases, and for those who come later too."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Never

from tlt_common.changes import Changes
from tlt_common.checkpoint import Spool
from tlt_common.domain.fleet import WorkerInfo
from tlt_common.domain.weights import TensorChunk, UpdateResult, WeightsUpdate
from tlt_common.errors import InvalidRequestError, TltError, UnavailableError
from tlt_common.telemetry import metrics
from tlt_common.telemetry.log import get_logger
from tlt_gateway.fleet import Fleet
from tlt_gateway.link import Link
from tlt_gateway.release import FIRST, Release

log = get_logger(__name__)


class Weights:
    """
    Keeps every worker that takes requests at one version.

    The gateway fans out by itself, since a training run must not depend on the coordinator. Updates and workers that
    join take turns, so that nobody joins at a version that is being replaced.
    """

    def __init__(self, fleet: Fleet, *, spool_dir: Path, spool_shared: bool) -> None:
        self._fleet = fleet
        self._spool_dir = spool_dir
        self._spool_shared = spool_shared
        self._release = FIRST
        self._previous = FIRST
        """Kept on disk one update longer: a worker told its directory may still have somebody read there."""
        self._changes = Changes()

    async def run(self) -> Never:
        """Live until cancelled."""
        try:
            await self._changes.run()
        finally:
            self._previous.remove()
            self._release.remove()

    async def update(self, update: WeightsUpdate, tensors: AsyncIterator[TensorChunk]) -> UpdateResult:
        """
        Install weights on all workers that answer. A caller that hangs up once all tensors came stops nothing.

        Raises:
            InvalidRequestError: The version is not above the one served, or the stream contradicts itself.
            WeightsError: Tensors are malformed, or a worker, named, refused them. What was served still is.
            UnavailableError: No worker is there.
        """
        started_s = asyncio.get_running_loop().time()
        outcome = "failed"
        try:
            self._require_newer(update)
            release = await self._received(update, tensors)
            workers = await self._changes.do(lambda: self._install(release))
            outcome = "done"
        finally:
            metrics.GATEWAY_UPDATES.labels(outcome=outcome).inc()
        elapsed_s = asyncio.get_running_loop().time() - started_s
        metrics.GATEWAY_UPDATE_SECONDS.observe(elapsed_s)
        log.info("weights_updated", policy_version=release.version, workers=workers, elapsed_s=round(elapsed_s, 3))
        return UpdateResult(version=release.version, workers=workers, elapsed_s=elapsed_s)

    async def admit(self, link: Link) -> None:
        """Bring a worker that answers to the version served, and let it take requests."""
        await self._changes.do(lambda: self._bring_forward(link))

    async def _received(self, update: WeightsUpdate, tensors: AsyncIterator[TensorChunk]) -> Release:
        if update.uri is not None:
            async for _ in tensors:
                raise InvalidRequestError(
                    "tensors follow a header that names a source; accepted: one of both", field="header.source"
                )
            if not update.uri:
                raise InvalidRequestError(
                    "header.source.uri is empty; accepted: a path or file:// URI", field="header.source.uri"
                )
            return Release(version=update.version, uri=update.uri)
        spool = await asyncio.to_thread(Spool, self._spool_dir)
        try:
            async for chunk in tensors:
                await asyncio.to_thread(spool.write, chunk)
            await asyncio.to_thread(spool.finish)
        except BaseException:
            spool.remove()
            raise
        return Release(version=update.version, spool=spool, shared=self._spool_shared)

    async def _install(self, release: Release) -> int:
        """Both phases; return how many workers switched."""
        try:
            self._require_newer(release.header())
            staged = await self._stage([link for link in self._fleet.links if link.answers], release)
            committed = await self._commit(staged, release)
        except BaseException:
            release.remove()
            raise
        self._serve(release)
        for link, info in committed.items():
            self._fleet.ready(link, info)
        return len(committed)

    async def _stage(self, links: Iterable[Link], release: Release) -> list[Link]:
        """All keep the weights ready, or are lost; if one refuses, all forget them."""
        outcomes = await _each(links, lambda link: link.remote.stage(release.header(), release.tensors))
        staged = [link for link, error in outcomes.items() if error is None]
        refused = None
        for link, error in outcomes.items():
            if isinstance(error, UnavailableError):
                self._fleet.lose(link, error.message)
            elif error is not None:
                refused = refused or _named(link, error)
            if error is not None:
                metrics.GATEWAY_UPDATE_FAILURES.labels(phase="stage").inc()
        if refused:
            await _each(outcomes, lambda link: link.remote.discard(release.version))
            raise refused
        if not staged:
            raise UnavailableError("no worker is there to take the weights")
        return staged

    async def _commit(self, links: Iterable[Link], release: Release) -> dict[Link, WorkerInfo]:
        """All switch. One that does not is out until it was brought forward: the update stands without it."""
        outcomes = await _each(links, lambda link: link.remote.commit(release.version))
        committed: dict[Link, WorkerInfo] = {}
        for link, error in outcomes.items():
            if error is not None:
                metrics.GATEWAY_UPDATE_FAILURES.labels(phase="commit").inc()
                log.error("commit_failed", worker=link.name, policy_version=release.version, error=error.message)
                self._fleet.lose(link, error.message)
            elif link.info is not None:
                committed[link] = replace(link.info, policy_version=release.version)
        if not committed:
            raise next(_named(link, error) for link, error in outcomes.items() if error is not None)
        return committed

    async def _bring_forward(self, link: Link) -> None:
        try:
            info = await link.remote.info()
            if info.policy_version > self._release.version:
                # Another gateway, or this one before a restart, published it; where it came from is not known here.
                self._serve(Release(version=info.policy_version))
            elif info.policy_version < self._release.version:
                self._fleet.behind(link, info)
                if not self._release.is_at_hand:
                    return
                await link.remote.stage(self._release.header(), self._release.tensors)
                await link.remote.commit(self._release.version)
                info = replace(info, policy_version=self._release.version)
                log.info("worker_brought_forward", worker=info.worker_id, policy_version=info.policy_version)
        except UnavailableError as error:
            self._fleet.lose(link, error.message)
        except TltError as error:
            metrics.GATEWAY_UPDATE_FAILURES.labels(phase="bring_forward").inc()
            log.warning("bring_forward_failed", worker=link.name, error=error.message)
        else:
            self._fleet.ready(link, info)

    def _serve(self, release: Release) -> None:
        """From now on this is the version of the fleet; who is older must not take requests."""
        self._previous.remove()
        self._previous, self._release = self._release, release
        self._fleet.version = release.version
        metrics.GATEWAY_POLICY_VERSION.set(release.version)
        for link in self._fleet.links:
            if link.answers and link.info is not None and link.info.policy_version < release.version:
                self._fleet.behind(link, link.info)

    def _require_newer(self, update: WeightsUpdate) -> None:
        if update.version <= self._release.version:
            raise InvalidRequestError(
                f"policy_version is {update.version}; accepted: above {self._release.version}, which is served",
                field="policy_version",
            )


async def _each(links: Iterable[Link], call: Callable[[Link], Awaitable[None]]) -> dict[Link, TltError | None]:
    """Call all at once; what came of each."""

    async def outcome(link: Link) -> TltError | None:
        try:
            await call(link)
        except TltError as error:
            return error
        return None

    async with asyncio.TaskGroup() as group:
        tasks = {link: group.create_task(outcome(link), name=f"update {link.name}") for link in links}
    return {link: task.result() for link, task in tasks.items()}


def _named(link: Link, error: TltError) -> TltError:
    return type(error)(f"worker {link.name}: {error.message}", field=error.field)
