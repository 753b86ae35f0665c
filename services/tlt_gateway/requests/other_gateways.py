"""Aborts and updates that concern requests and policy versions at other gateways of the fleet."""

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import suppress

from tlt_common.domain.ids import PolicyVersion, RequestId
from tlt_common.errors import TltError
from tlt_common.telemetry.log import get_logger
from tlt_gateway.workers.pooled_worker import PooledWorker
from tlt_gateway.workers.worker_pool import WorkerPool

log = get_logger(__name__)


async def learn_of(version: PolicyVersion, pool: WorkerPool, *, within_s: float) -> None:
    """
    Refresh the known policy version from the workers, which may serve a newer one.

    If one was published through another gateway, wait at most `within_s` until this gateway serves it.
    """
    with suppress(TimeoutError):
        async with asyncio.timeout(within_s):
            await pool.refresh(within_s)
            while pool.version < version and _is_installed(version, pool.workers):
                await pool.version_changed.beyond(pool.version_changed.count)


def _is_installed(version: PolicyVersion, workers: Iterable[PooledWorker]) -> bool:
    return any(worker.info is not None and worker.info.policy_version >= version for worker in workers)


async def abort_on(workers: Iterable[PooledWorker], request_ids: Sequence[RequestId], *, owner: str) -> set[RequestId]:
    """Abort all attempts at an owner's requests on reachable workers; return the ids of those that were running."""

    async def aborted(worker: PooledWorker) -> set[RequestId]:
        try:
            return await worker.remote.abort(request_ids, owner=owner)
        except TltError as error:
            log.warning("abort_failed", worker=worker.name, error=error.message)
            return set()

    found = await asyncio.gather(*(aborted(worker) for worker in workers if worker.answers))
    return {request_id for request_ids in found for request_id in request_ids}
