"""Stages a release on many workers, each of which links the file or receives it from the one before."""

import asyncio
from collections.abc import Sequence

from tlt_common.domain.weights import Staged, StageOrder
from tlt_common.errors import TltError, WeightsUnreadableError
from tlt_common.machine import boot_id
from tlt_common.telemetry.log import get_logger
from tlt_gateway.weights.release import Release
from tlt_gateway.workers.pooled_worker import PooledWorker

log = get_logger(__name__)


class StageChain:
    """
    One release and the workers that are to stage it.

    Workers that share a file system with the gateway link its file. Otherwise the gateway sends tensors to the first
    worker only; every other one fetches them from its predecessors, the nearest first, or links a
    predecessor's file. A worker that cannot, or whose predecessors have all failed, receives them from the gateway.
    """

    def __init__(self, release: Release, workers: Sequence[PooledWorker]) -> None:
        self._release = release
        # Neighbors in the list are often neighbors in the network, too.
        self._workers = sorted(workers, key=lambda worker: worker.address)
        self._failed: set[PooledWorker] = set()
        self._failure = asyncio.Event()

    @property
    def workers(self) -> list[PooledWorker]:
        """The workers, in the order of the chain."""
        return self._workers

    async def stage(self, worker: PooledWorker) -> Staged:
        """
        Stage the release on one worker.

        Raises:
            TltError: It could not be reached, could not read or store the weights, or refused them.
        """
        try:
            return await self._stage(worker)
        except BaseException:
            self._failed.add(worker)
            failure, self._failure = self._failure, asyncio.Event()
            failure.set()
            raise

    async def _stage(self, worker: PooledWorker) -> Staged:
        if not self._release.is_streamed:
            return await worker.remote.stage(self._release.order())
        if staged := await staged_by_link(worker, self._release):
            return staged
        before = self._workers[: self._workers.index(worker)]
        if before and (staged := await self._from_peers(worker, before)):
            return staged
        direct = self._release.direct()
        assert direct is not None  # noqa: S101 - it is streamed
        return await worker.remote.stage(*direct)

    async def _from_peers(self, worker: PooledWorker, before: Sequence[PooledWorker]) -> Staged | None:
        """Stage the release from predecessors; return None if that failed or all of them have."""
        order = self._release.order(*(peer.address for peer in reversed(before)))
        async with asyncio.TaskGroup() as group:
            alone = group.create_task(self._until_failed(before), name=f"predecessors of {worker.name}")
            staging = group.create_task(_outcome(worker, order), name=f"stage {worker.name}")
            await asyncio.wait({alone, staging}, return_when=asyncio.FIRST_COMPLETED)
            alone.cancel()
            if not staging.done():
                staging.cancel()
        if staging.cancelled():
            log.warning("predecessors_failed", worker=worker.name)
            return None
        outcome = staging.result()
        if isinstance(outcome, WeightsUnreadableError):
            log.warning("peers_failed", worker=worker.name, error=outcome.message)
            return None
        if isinstance(outcome, TltError):
            raise outcome
        return outcome

    async def _until_failed(self, workers: Sequence[PooledWorker]) -> None:
        while not self._failed.issuperset(workers):
            await self._failure.wait()


async def _outcome(worker: PooledWorker, order: StageOrder) -> Staged | TltError:
    try:
        return await worker.remote.stage(order)
    except TltError as error:
        return error


async def staged_by_link(worker: PooledWorker, release: Release, *, joining: bool = False) -> Staged | None:
    """
    Let a worker stage a release by linking this gateway's file; return None if it has to receive the tensors instead.

    Raises:
        TltError: As for `RemoteWorker.stage`.
    """
    if worker.info is None or not worker.info.machine or worker.info.machine != boot_id():
        return None
    if (linked := await release.linked(joining=joining)) is None:
        return None
    try:
        return await worker.remote.stage(*linked)
    except WeightsUnreadableError as error:
        log.info("not_linked", worker=worker.name, reason=error.message)
        return None
